// SPDX-License-Identifier: GPL-2.0-only

//! The page that plays a recording, in a browser: Debian's packages chromium and chromium-driver. Where
//! there is none, the tests say that they are skipped.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use fantoccini::{key::Key, wd::Capabilities, Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use imrsim_core::{Allocation, Geometry};
use imrsim_util::{
    drive::Drive,
    recording::{Clock, Event, Header, Item, Op, Reader, Request, Source, Writer},
    rng::Rng,
    show::{
        page,
        steps::{self, Counts, Step},
        Chosen,
    },
};
use serde_json::{json, Value};

const BLOCK: u64 = 4096;

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// A program that drives the browser, on a port of its own; ended when it is dropped.
struct Driver {
    child: Child,
    port: u16,
}

impl Driver {
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        Self {
            child,
            port: port.unwrap(),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A drive that fills up and rewrites, recorded.
fn record(path: &Path, requests: u32, geometry: Geometry) {
    let mut drive = Drive::new(geometry, 1, Allocation::from_phases(3).unwrap()).unwrap();
    drive
        .record(None, Box::new(BufWriter::new(File::create(path).unwrap())))
        .unwrap();
    let blocks = u64::from(geometry.zone_blocks());
    let mut rng = Rng::new(7);
    for _ in 0..requests {
        let at = rng.below(blocks);
        let len = (1 + rng.below(4)).min(blocks - at);
        let bytes = (at * BLOCK, len * BLOCK);
        match rng.below(16) {
            0 => drive.read(bytes.0, bytes.1).unwrap(),
            1 => drive.discard(bytes.0, bytes.1).unwrap(),
            _ => drive.write(bytes.0, bytes.1).unwrap(),
        }
    }
    drive.end_recording().unwrap();
}

/// The recording as one of a drive of the kernel: with times, 1.5 ms for each request.
fn with_times(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let header = Header {
        source: Source::Kernel,
        clock: Clock::Nanoseconds,
        ..*reader.header()
    };
    let mut writer = Writer::new(header, Vec::new()).unwrap();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Start(snapshot) => writer.start(&snapshot).unwrap(),
            Item::Event { time, zone, event } => {
                writer.event(time * 1_500_000, zone, &event).unwrap();
            }
            Item::Final(snapshot) => writer.end(&snapshot).unwrap(),
        }
    }
    fs::write(path, writer.finish().unwrap()).unwrap();
}

/// The recording as one of a drive that has a run of its own, which does not count, before each third request.
fn with_runs(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let mut reader = Reader::new(bytes.as_slice()).unwrap();
    let header = Header {
        source: Source::Kernel,
        ..*reader.header()
    };
    let mut writer = Writer::new(header, Vec::new()).unwrap();
    let mut requests = 0;
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Start(snapshot) => writer.start(&snapshot).unwrap(),
            Item::Event { time, zone, event } => {
                if let Event::Request(request) = event {
                    requests += 1;
                    if requests % 3 == 0 {
                        let more = Event::Request(Request {
                            more: true,
                            op: Op::Discard,
                            ..request
                        });
                        writer.event(time, zone, &more).unwrap();
                    }
                }
                writer.event(time, zone, &event).unwrap();
            }
            Item::Final(snapshot) => writer.end(&snapshot).unwrap(),
        }
    }
    fs::write(path, writer.finish().unwrap()).unwrap();
}

/// What the page has to count after each request, and the request.
fn moments(path: &Path, chosen: &Chosen) -> Vec<(Counts, Step)> {
    let mut counts = Counts::default();
    let mut moments = Vec::new();
    let mut player = chosen.player(path).unwrap();
    let _ = steps::play(&mut player, chosen.zone, |step, used| {
        counts.add(step);
        let now = Counts {
            used: used.count().into(),
            ..counts
        };
        moments.push((now, step.clone()));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    moments
}

/// The page in a browser.
struct Shown {
    client: Client,
    log: PathBuf,
}

impl Shown {
    async fn open(driver: &Driver, browser: &Path, page: &Path, folder: &Path) -> Self {
        let log = folder.join("console.log");
        let arguments = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--window-size=1400,1500".to_owned(),
            format!("--user-data-dir={}", folder.join("profile").display()),
            "--enable-logging".to_owned(),
            format!("--log-file={}", log.display()),
        ];
        let mut capabilities = Capabilities::new();
        let options = json!({ "binary": browser, "args": arguments });
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{}", driver.port))
            .await
            .unwrap();
        let shown = Self { client, log };
        shown
            .client
            .goto(&format!("file://{}", page.display()))
            .await
            .unwrap();
        let ready = "const done = arguments[0]; window.imrsim.ready.then(done, (error) => done(String(error)));";
        let answer = shown.client.execute_async(ready, Vec::new()).await.unwrap();
        assert_eq!(answer, json!(true));
        shown
    }

    async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.unwrap()
    }

    async fn state(&self) -> Value {
        self.run("return window.imrsim.state();").await
    }

    async fn press(&self, keys: &str) {
        let body = self.client.find(Locator::Css("body")).await.unwrap();
        body.send_keys(keys).await.unwrap();
    }

    /// Waits until the page's state is as it should be.
    async fn wait(&self, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..200 {
            let state = self.state().await;
            if is_right(&state) {
                return state;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("waited in vain: {what}; {}", self.state().await);
    }

    /// Ends it; nothing may have been complained about.
    async fn close(self) {
        self.client.close().await.unwrap();
        let log = fs::read_to_string(self.log).unwrap_or_default();
        let complaints: Vec<&str> = log.lines().filter(|it| it.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}

fn check(state: &Value, counts: &Counts) {
    for (name, count) in json!(counts).as_object().unwrap() {
        assert_eq!(&state["counts"][name], count, "{name} in {state}");
    }
}

/// The browser and its driver, if they are there.
fn programs(name: &str) -> Option<(PathBuf, PathBuf)> {
    let programs = program("chromium").zip(program("chromedriver"));
    if programs.is_none() {
        println!("SKIPPED page: no chromium ({name})");
    }
    programs
}

fn block_on(test: impl std::future::Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

/// Runs a test in a browser, on a page of a recording.
fn in_browser<F: std::future::Future<Output = ()>>(
    name: &str,
    requests: u32,
    detail: u64,
    change: impl FnOnce(&Path),
    test: impl FnOnce(Shown, Vec<(Counts, Step)>) -> F,
) {
    let Some((browser, driver)) = programs(name) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("run.imrtrace");
    record(&recording, requests, Geometry::new(57, 71, 8).unwrap());
    change(&recording);
    let chosen = Chosen::of(&recording, None).unwrap();
    let moments = moments(&recording, &chosen);
    let page = folder.path().join("run.html");
    let mut file = BufWriter::new(File::create(&page).unwrap());
    page::write(&recording, &chosen, detail, &mut file).unwrap();
    let driver = Driver::start(&driver);
    block_on(async {
        let shown = Shown::open(&driver, &browser, &page, folder.path()).await;
        test(shown, moments).await;
    });
}

#[test]
fn each_request_is_a_step() {
    in_browser(
        "each request",
        3000,
        1_000_000,
        |_| {},
        |page, moments| async move {
            let steps = moments.len();
            let state = page.state().await;
            assert_eq!(
                (&state["position"], &state["steps"]),
                (&json!(0), &json!(steps))
            );
            check(&state, &Counts::default());

            // Forwards, backwards and far away.
            for position in [1, 2, 700, 699, 65, 64, 63, steps, steps - 1, 1500, 128, 1] {
                page.run(&format!("window.imrsim.seek({position});")).await;
                let state = page.state().await;
                let (counts, step) = &moments[position - 1];
                check(&state, counts);
                let written: u32 = step.written().map(|(_, blocks)| blocks).sum();
                assert_eq!(state["shown"]["written"], json!(written), "{state}");
                assert_eq!(
                    state["shown"]["rewrite"],
                    json!(step.extra_writes()),
                    "{state}"
                );
            }

            // A rewrite, part by part.
            page.run("window.imrsim.seek(0);").await;
            let first = moments
                .iter()
                .position(|(_, step)| !step.rmws.is_empty())
                .unwrap();
            page.press("n").await;
            let extra = json!(moments[first].1.extra_writes());
            let state = page.state().await;
            assert_eq!(
                (&state["position"], &state["stage"]),
                (&json!(first + 1), &json!(0))
            );
            assert_eq!(
                state["shown"],
                json!({"read": 0, "written": 0, "backup": extra, "rewrite": 0})
            );
            let right = char::from(Key::Right).to_string();
            page.press(&right).await;
            let state = page.state().await;
            assert_ne!(state["shown"]["written"], json!(0));
            assert_eq!(state["shown"]["backup"], extra);
            page.press(&right).await;
            assert_eq!(page.state().await["shown"]["rewrite"], extra);
            page.press(&right).await;
            assert_eq!(page.state().await["position"], json!(first + 2));

            // Home, play, pause, the end, the bar.
            page.press(&char::from(Key::Home).to_string()).await;
            assert_eq!(page.state().await["position"], json!(0));
            page.press(" ").await;
            page.wait("it plays", |state| state["position"].as_u64() > Some(10))
                .await;
            page.press(" ").await;
            let state = page
                .wait("it pauses", |state| state["isPlaying"] == json!(false))
                .await;
            let position = state["position"].as_u64().unwrap() as usize;
            check(&page.state().await, &moments[position - 1].0);
            page.press(&char::from(Key::End).to_string()).await;
            check(&page.state().await, &moments[steps - 1].0);
            page.run(
            "const bar = document.getElementById('scrub'); bar.value = 1000; bar.dispatchEvent(new Event('input'));",
        )
        .await;
            check(&page.state().await, &moments[999].0);
            let text = page
                .client
                .find(Locator::Id("position"))
                .await
                .unwrap()
                .text()
                .await
                .unwrap();
            assert_eq!(text, "Request 1,000 of 3,000");

            // Light and dark.
            let theme = "return document.documentElement.dataset.theme;";
            let before = page.run(theme).await;
            page.press("t").await;
            assert_ne!(page.run(theme).await, before);
            page.close().await;
        },
    );
}

#[test]
fn many_requests_are_grouped() {
    in_browser(
        "groups",
        3000,
        100,
        with_times,
        |page, moments| async move {
            let state = page.state().await;
            assert_eq!(state["steps"], json!(100));
            for position in [100, 1, 50, 49, 2] {
                page.run(&format!("window.imrsim.seek({position});")).await;
                check(&page.state().await, &moments[position * 30 - 1].0);
            }
            let text = page.client.find(Locator::Id("position")).await.unwrap();
            let text = text.text().await.unwrap();
            assert_eq!(text, "Request 60 of 3,000, 0.090000 s");
            // A driver cannot type '+' on every keyboard.
            let faster = "for (let i = 0; i < 9; i++) {
                document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }));
            }
            return document.getElementById('speed').value;";
            assert_eq!(page.run(faster).await, json!("60"));
            page.run("window.imrsim.seek(0); window.imrsim.play();")
                .await;
            page.wait("it plays to its end", |state| {
                state["position"] == json!(100)
            })
            .await;
            check(&page.state().await, &moments[2999].0);
            page.close().await;
        },
    );
}

#[test]
fn runs_are_steps_and_one_of_them_is_the_request() {
    for (detail, per_step) in [(1000, 1), (40, 10)] {
        in_browser("runs", 300, detail, with_runs, |page, moments| async move {
            assert_eq!(moments.len(), 400);
            assert_eq!(moments[399].0.requests, 300);
            let steps = 400 / per_step;
            assert_eq!(page.state().await["steps"], json!(steps));
            for position in [steps, 3, 4, 1] {
                page.run(&format!("window.imrsim.seek({position});")).await;
                check(&page.state().await, &moments[position * per_step - 1].0);
            }
            page.run(&format!("window.imrsim.seek({steps});")).await;
            let text = |id| page.client.find(Locator::Id(id));
            let shown = text("position").await.unwrap().text().await.unwrap();
            assert_eq!(shown, "Request 300 of 300");
            let shown = text("detail").await.unwrap().text().await.unwrap();
            let expected = match per_step {
                1 => "Each step is a run of a request: 400 of 300 requests in all",
                _ => "400 runs of requests are too many",
            };
            assert!(shown.starts_with(expected), "{shown}");
            page.close().await;
        });
    }
}

/// Of ten million events, the page shows groups: small, exact, and at once wherever it is sent.
#[test]
fn ten_million_events_play() {
    let Some((browser, driver)) = programs("ten million events") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("run.imrtrace");
    record(&recording, 4_300_000, Geometry::new(57, 71, 8).unwrap());
    let chosen = Chosen::of(&recording, None).unwrap();
    assert!(chosen.events >= 10_000_000, "{} events", chosen.events);
    let page = folder.path().join("run.html");
    let mut file = BufWriter::new(File::create(&page).unwrap());
    page::write(&recording, &chosen, page::DETAIL, &mut file).unwrap();
    let bytes = page.metadata().unwrap().len();
    assert!(bytes < 8 << 20, "{bytes} bytes");

    let per_step = chosen.requests.div_ceil(20_000);
    let places = [chosen.requests, per_step, 10_000 * per_step];
    let mut expected = BTreeMap::new();
    let mut counts = Counts::default();
    let mut player = chosen.player(&recording).unwrap();
    let _ = steps::play(&mut player, chosen.zone, |step, used| {
        counts.add(step);
        if places.contains(&counts.requests) {
            counts.used = used.count().into();
            expected.insert(counts.requests, counts);
        }
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    let driver = Driver::start(&driver);
    block_on(async {
        let shown = Shown::open(&driver, &browser, &page, folder.path()).await;
        for place in places {
            let position = place.div_ceil(per_step);
            shown.run(&format!("window.imrsim.seek({position});")).await;
            check(&shown.state().await, &expected[&place]);
        }
        shown.close().await;
    });
}
