// SPDX-License-Identifier: GPL-2.0-only

//! A zone as its documentation describes it, written to be obviously right and nothing else.

use std::collections::{
    BTreeMap,
    BTreeSet, //
};

/// A write to the zone.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) bo: u32,
    pub(crate) blocks: u32,
    pub(crate) head_partial: bool,
    pub(crate) tail_partial: bool,
}

/// What the drive should do with a write.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Ready(Run),
    Wait(u32),
}

/// A run to be written.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) bo: u32,
    pub(crate) nbo: u32,
    pub(crate) blocks: u32,
    pub(crate) first: bool,
    pub(crate) pad: bool,
    pub(crate) top: bool,
    /// The blocks to be written back, in top track g and in top track g+1.
    pub(crate) tops: [Vec<u32>; 2],
}

/// Where a physical block lies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    group: u32,
    top: bool,
    offset: u32,
}

#[derive(Clone)]
pub(crate) struct Model {
    top: u32,
    bottom: u32,
    groups: u32,
    /// The place of each physical block, in physical order.
    places: Vec<Place>,
    /// Blocks that can be read: logical to physical.
    pub(crate) mapped: BTreeMap<u32, u32>,
    /// Blocks whose first write is in flight: logical to physical.
    pending: BTreeMap<u32, u32>,
    running: BTreeMap<usize, Run>,
    next_key: usize,
    pub(crate) host_blocks: u64,
    pub(crate) first_blocks: u64,
    pub(crate) top_blocks_written: u64,
    pub(crate) extra_blocks: u64,
}

impl Model {
    pub(crate) fn new(top: u32, bottom: u32, groups: u32) -> Self {
        let mut places = Vec::new();
        for group in 0..groups {
            for offset in 0..top {
                places.push(Place {
                    group,
                    top: true,
                    offset,
                });
            }
            for offset in 0..bottom {
                places.push(Place {
                    group,
                    top: false,
                    offset,
                });
            }
        }
        Self {
            top,
            bottom,
            groups,
            places,
            mapped: BTreeMap::new(),
            pending: BTreeMap::new(),
            running: BTreeMap::new(),
            next_key: 0,
            host_blocks: 0,
            first_blocks: 0,
            top_blocks_written: 0,
            extra_blocks: 0,
        }
    }

    /// Physical blocks that hold data or are about to.
    pub(crate) fn used(&self) -> BTreeSet<u32> {
        self.mapped
            .values()
            .chain(self.pending.values())
            .copied()
            .collect()
    }

    pub(crate) fn used_tops(&self) -> usize {
        self.used()
            .iter()
            .filter(|&&nbo| self.places[nbo as usize].top)
            .count()
    }

    pub(crate) fn busy(&self, bo: u32) -> bool {
        self.running
            .values()
            .any(|run| run.bo <= bo && bo < run.bo + run.blocks)
    }

    fn place(&self, nbo: u32) -> Place {
        self.places[nbo as usize]
    }

    fn at(&self, wanted: Place) -> Option<u32> {
        self.places
            .iter()
            .position(|&place| place == wanted)
            .map(|nbo| nbo as u32)
    }

    /// Whether `next` lies behind `nbo` on the same track.
    fn follows(&self, nbo: u32, next: u32) -> bool {
        let (a, b) = (self.place(nbo), self.place(next));
        a.group == b.group && a.top == b.top && a.offset + 1 == b.offset
    }

    /// All physical blocks in the order in which first writes take them.
    fn order(&self, phases: u32) -> Vec<u32> {
        let all = 0..self.places.len() as u32;
        if phases == 1 {
            return all.collect();
        }
        let mut order: Vec<u32> = all.clone().filter(|&nbo| !self.place(nbo).top).collect();
        for pass in 0..phases - 1 {
            order.extend(all.clone().filter(|&nbo| {
                self.place(nbo).top && self.place(nbo).group % (phases - 1) == pass
            }));
        }
        order
    }

    /// The block that a first write of `bo` gets, and whether it is its home.
    fn choose(&self, bo: u32, phases: u32, used: &BTreeSet<u32>) -> (u32, bool) {
        if phases == 1 && !used.contains(&bo) {
            return (bo, true);
        }
        let free = self
            .order(phases)
            .into_iter()
            .find(|nbo| !used.contains(nbo));
        (
            free.expect("as many physical blocks as logical ones"),
            false,
        )
    }

    /// The used top blocks over a bottom block.
    fn tops_over(&self, nbo: u32, used: &BTreeSet<u32>) -> [Option<u32>; 2] {
        let Place { group, top, offset } = self.place(nbo);
        assert!(!top);
        let offset = offset * self.top / self.bottom;
        [group, group + 1].map(|group| {
            if group == self.groups {
                return None;
            }
            self.at(Place {
                group,
                top: true,
                offset,
            })
            .filter(|top| used.contains(top))
        })
    }

    /// The used top blocks over a run.
    fn tops_over_run(&self, nbo: u32, blocks: u32) -> [Vec<u32>; 2] {
        let used = self.used();
        let mut tops = [BTreeSet::new(), BTreeSet::new()];
        if !self.place(nbo).top {
            for nbo in nbo..nbo + blocks {
                for (tops, top) in tops.iter_mut().zip(self.tops_over(nbo, &used)) {
                    tops.extend(top);
                }
            }
        }
        tops.map(|tops| tops.into_iter().collect())
    }

    fn run(&self, bo: u32, nbo: u32, mut blocks: u32, first: bool, pad: bool) -> Run {
        if self.tops_over_run(nbo, blocks) != [vec![], vec![]] {
            blocks = blocks.min(64);
        }
        Run {
            bo,
            nbo,
            blocks,
            first,
            pad,
            top: self.place(nbo).top,
            tops: self.tops_over_run(nbo, blocks),
        }
    }

    /// What the longest prefix would do.
    pub(crate) fn plan(&self, write: &Write, phases: u32) -> Answer {
        let bo = write.bo;
        if let Some(&nbo) = self.mapped.get(&bo) {
            let mut blocks = 1;
            while blocks < write.blocks {
                match self.mapped.get(&(bo + blocks)) {
                    Some(&next) if next == nbo + blocks && self.follows(next - 1, next) => {}
                    _ => break,
                }
                blocks += 1;
            }
            return Answer::Ready(self.run(bo, nbo, blocks, false, false));
        }
        if self.pending.contains_key(&bo) {
            return Answer::Wait(1);
        }
        let partial = |i: u32| {
            (i == 0 && write.head_partial) || (i == write.blocks - 1 && write.tail_partial)
        };
        let mut used = self.used();
        let (nbo, mut at_home) = self.choose(bo, phases, &used);
        let mut blocks = 1;
        used.insert(nbo);
        while blocks < write.blocks && !partial(0) && !partial(blocks) {
            // Behind a block that is not at home in 1-phase allocation, a new run begins.
            if phases == 1 && !at_home {
                break;
            }
            let next_bo = bo + blocks;
            if self.mapped.contains_key(&next_bo) || self.pending.contains_key(&next_bo) {
                break;
            }
            if used.len() == self.places.len() {
                break;
            }
            let (next, home) = self.choose(next_bo, phases, &used);
            if next != nbo + blocks || !self.follows(next - 1, next) || home != at_home {
                break;
            }
            at_home = home;
            used.insert(next);
            blocks += 1;
        }
        Answer::Ready(self.run(bo, nbo, blocks, true, partial(0)))
    }

    /// Whether something in flight stands in the way of a run.
    fn conflict(&self, run: &Run) -> bool {
        if (run.bo..run.bo + run.blocks).any(|bo| self.busy(bo)) {
            return true;
        }
        let written = |top: u32| {
            self.running
                .values()
                .any(|other| other.top && (other.nbo..other.nbo + other.blocks).contains(&top))
        };
        let rewriters = |top: u32| {
            self.running
                .values()
                .filter(|other| other.tops.concat().contains(&top))
                .count()
        };
        if run.top {
            return (run.nbo..run.nbo + run.blocks).any(|top| written(top) || rewriters(top) > 0);
        }
        run.tops
            .concat()
            .into_iter()
            .any(|top| written(top) || rewriters(top) >= 2)
    }

    pub(crate) fn start(&mut self, write: &Write, phases: u32) -> (Answer, Option<usize>) {
        let run = match self.plan(write, phases) {
            Answer::Ready(run) => run,
            wait => return (wait, None),
        };
        if self.conflict(&run) {
            let blocks = if run.first { 1 } else { run.blocks.min(64) };
            return (Answer::Wait(blocks), None);
        }
        if run.first {
            for i in 0..run.blocks {
                self.pending.insert(run.bo + i, run.nbo + i);
            }
            self.first_blocks += u64::from(run.blocks);
        }
        if run.top {
            self.top_blocks_written += u64::from(run.blocks);
        }
        self.host_blocks += u64::from(run.blocks);
        self.extra_blocks += run.tops.concat().len() as u64;
        let key = self.next_key;
        self.next_key += 1;
        self.running.insert(key, run.clone());
        (Answer::Ready(run), Some(key))
    }

    pub(crate) fn finish(&mut self, key: usize, ok: bool) {
        let run = self.running.remove(&key).unwrap();
        if run.first {
            for bo in run.bo..run.bo + run.blocks {
                let nbo = self.pending.remove(&bo).unwrap();
                if ok {
                    self.mapped.insert(bo, nbo);
                }
            }
        }
    }

    /// The longest run from `bo` on, at most `blocks` long: where it lies (`None`: zeros).
    pub(crate) fn read(&self, bo: u32, blocks: u32) -> (Option<u32>, u32) {
        let start = self.mapped.get(&bo).copied();
        let mut len = 1;
        while len < blocks {
            let next = self.mapped.get(&(bo + len)).copied();
            if next != start.map(|nbo| nbo + len) {
                break;
            }
            len += 1;
        }
        (start, len)
    }
}
