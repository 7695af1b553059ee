//! What every [`Executor`] keeps: one suite, run by the tests of each implementation.
//!
//! An implementation shows the suite a [`Stage`]: executors that see the same calls, as several processes of one session
//! do. What only some can suffer (a runner that is killed) is in their own tests.

use piton_core::ids::CallId;
use piton_core::secrets::Firewall;
use piton_tools::executor::{
    Background, Boot, CommandEnd, CommandSpec, CommandWatch, Executor, ExecutorError, ExitRecord, OutputSink, Started,
};
use piton_tools::spawn::{Confinement, Env, Spawn};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where an implementation is tested.
pub trait Stage: Sync {
    /// Another process's view of the session's calls: nothing is remembered, everything is found.
    fn executor(&self) -> Arc<dyn Executor>;

    /// A folder that commands may write to.
    fn folder(&self) -> &Path;

    /// How the commands are confined.
    fn confinement(&self) -> Confinement {
        Confinement::Model
    }

    /// The environment of the commands: `sh` and the usual programs are in its `PATH`.
    fn env(&self) -> Env;
}

/// Runs the whole suite. Panics at the first promise that is not kept, and names it.
pub async fn conforms(stage: &dyn Stage) {
    ends_and_output_are_told(stage).await;
    what_cannot_end_well_is_told(stage).await;
    a_call_runs_once_whoever_runs_it(stage).await;
    what_was_settled_never_runs(stage).await;
    after_a_restart_no_trace_is_no_proof(stage).await;
    who_comes_late_waits_for_the_same_end(stage).await;
    a_command_stops_when_somebody_stops_it(stage).await;
    a_command_that_is_left_running_goes_on(stage).await;
    a_command_that_is_left_running_is_ended_by_whoever_looks_after_it(stage).await;
    no_more_are_left_running_than_may_be(stage).await;
}

async fn ends_and_output_are_told(stage: &dyn Stage) {
    let scene = Scene::new(stage, "told");
    let heard = Arc::new(Mutex::new(String::new()));
    let hears = Arc::clone(&heard);
    let output = OutputSink::new(move |text| hears.lock().unwrap_or_else(PoisonError::into_inner).push_str(text));
    let watch = CommandWatch { output, ..CommandWatch::default() };
    let executor = stage.executor();
    let record = executor.run(&scene.call, &scene.order("echo out; echo err >&2; exit 3"), &watch).await;
    let record = record.expect("it can be run");
    assert_eq!((record.status, record.code, record.output_bytes), (CommandEnd::Exited, Some(3), 8), "how it ended");
    assert_eq!(executor.output(&scene.call, 100, &Firewall::off()).await.text, "out\nerr\n", "what it wrote");
    assert_eq!(*heard.lock().unwrap_or_else(PoisonError::into_inner), "out\nerr\n", "and as it wrote it");
    assert_eq!(scene.settle().await, record, "the same for everybody");
    let cut = executor.output(&scene.call, 4, &Firewall::off()).await.text;
    assert!(cut.starts_with("ou\n") && cut.ends_with("r\n"), "the beginning and the end of a long output: {cut}");
}

async fn what_cannot_end_well_is_told(stage: &dyn Stage) {
    let scene = Scene::new(stage, "slow");
    let order = CommandSpec { timeout_ms: 100, ..scene.order("exec sleep 600") };
    let record = stage.executor().run(&scene.call, &order, &CommandWatch::default()).await;
    assert_eq!(record.expect("it can be run").status, CommandEnd::TimedOut, "a command whose time is up is ended");

    let scene = Scene::new(stage, "homeless");
    let mut order = scene.order("echo ran");
    order.spawn.cwd.push("gone");
    let record =
        stage.executor().run(&scene.call, &order, &CommandWatch::default()).await.expect("an end, not an error");
    assert_eq!(record.status, CommandEnd::SpawnFailed, "a command whose folder is gone");
    assert!(record.error.is_some_and(|why| why.contains("gone")), "and why");
}

async fn a_call_runs_once_whoever_runs_it(stage: &dyn Stage) {
    let scene = Scene::new(stage, "once");
    let order = scene.order("echo ran >> once; echo done");
    let (one, two) = (stage.executor(), stage.executor());
    let (watch, other) = (CommandWatch::default(), CommandWatch::default());
    let (one, two) = tokio::join!(one.run(&scene.call, &order, &watch), two.run(&scene.call, &order, &other));
    assert_eq!(one.expect("a record"), two.expect("a record"), "both find what came of the one run");
    let again = stage.executor().run(&scene.call, &order, &CommandWatch::default()).await.expect("a record");
    assert_eq!((again.status, again.code), (CommandEnd::Exited, Some(0)), "a third finds it, too");
    assert_eq!(std::fs::read_to_string(scene.file("once")).unwrap_or_default(), "ran\n", "it ran once");
}

async fn what_was_settled_never_runs(stage: &dyn Stage) {
    let scene = Scene::new(stage, "never");
    assert_eq!(scene.settle().await.status, CommandEnd::NotStarted, "nobody has run it");
    let late = stage.executor().run(&scene.call, &scene.order("touch never"), &CommandWatch::default()).await;
    assert_eq!(late.expect("a record").status, CommandEnd::NotStarted, "whoever comes later finds that");
    assert!(!scene.file("never").exists(), "and does nothing");
}

async fn after_a_restart_no_trace_is_no_proof(stage: &dyn Stage) {
    let scene = Scene::new(stage, "lost");
    for look in ["the first", "the second"] {
        let found = scene.settle_in(Boot::Earlier).await;
        assert_eq!(found.status, CommandEnd::Interrupted, "what is known of it was not synced: {look} look");
    }
    let late = stage.executor().run(&scene.call, &scene.order("touch lost"), &CommandWatch::default()).await;
    assert_eq!(late.expect("a record").status, CommandEnd::Interrupted, "whoever comes later finds that");
    assert!(!scene.file("lost").exists(), "and does nothing");

    let scene = Scene::new(stage, "kept");
    let ran = stage.executor().run(&scene.call, &scene.order("exit 4"), &CommandWatch::default()).await;
    assert_eq!(scene.settle_in(Boot::Earlier).await, ran.expect("a record"), "what is on the disk counts");
}

async fn who_comes_late_waits_for_the_same_end(stage: &dyn Stage) {
    let scene = Scene::new(stage, "late");
    let (executor, watch) = (stage.executor(), CommandWatch::default());
    let order = scene.order("touch late.begun; until [ -e late.gate ]; do sleep 0.01; done; echo done");
    let attached = async {
        scene.begun().await;
        let settled = scene.settle();
        let opened = async { std::fs::write(scene.file("late.gate"), "").expect("a folder to write to") };
        tokio::join!(settled, opened).0
    };
    let (ran, settled) = tokio::join!(executor.run(&scene.call, &order, &watch), attached);
    assert_eq!(settled, ran.expect("a record"), "who waits late hears the same");
    assert_eq!((settled.status, settled.code), (CommandEnd::Exited, Some(0)));
}

async fn a_command_stops_when_somebody_stops_it(stage: &dyn Stage) {
    let script = |name: &str| format!("touch {name}.begun; exec sleep 600");
    let scene = Scene::new(stage, "stop");
    let (executor, watch) = (stage.executor(), CommandWatch::default());
    let stop = async {
        scene.begun().await;
        watch.stop.cancel();
    };
    let order = scene.order(&script("stop"));
    let (ran, ()) = tokio::join!(executor.run(&scene.call, &order, &watch), stop);
    assert_eq!(ran.expect("a record").status, CommandEnd::Cancelled, "who runs it can stop it");

    let scene = Scene::new(stage, "beside");
    let (watch, other) = (CommandWatch::default(), CommandWatch::default());
    let stop = async {
        scene.begun().await;
        other.stop.cancel();
        stage.executor().settle(&scene.call, Boot::Current, &other).await
    };
    let order = scene.order(&script("beside"));
    let (ran, settled) = tokio::join!(executor.run(&scene.call, &order, &watch), stop);
    assert_eq!(settled.expect("a record").status, CommandEnd::Cancelled, "so can who came late");
    assert_eq!(ran.expect("a record").status, CommandEnd::Cancelled, "and who runs it hears of that");

    let scene = Scene::new(stage, "dropped");
    let (watch, order) = (CommandWatch::default(), scene.order(&script("dropped")));
    tokio::select! {
        _ = executor.run(&scene.call, &order, &watch) => panic!("it does not end by itself"),
        () = scene.begun() => {}
    }
    assert_eq!(scene.settle().await.status, CommandEnd::Cancelled, "nobody waits any more: it is stopped");
}

const LEFT: Background = Background { most: 2, unattended_ms: 600_000, moment: Duration::from_millis(20) };

async fn a_command_that_is_left_running_goes_on(stage: &dyn Stage) {
    let scene = Scene::new(stage, "left");
    let (executor, watch) = (stage.executor(), CommandWatch::default());
    let order =
        scene.order("echo one; touch left.begun; until [ -e left.gate ]; do sleep 0.01; done; echo two; exit 3");
    let started = executor.start(&scene.call, &order, &LEFT, &watch.stop).await;
    assert_eq!(started.expect("it starts"), Started::Running, "who starts it does not wait for its end");
    scene.begun().await;
    let again = stage.executor().start(&scene.call, &order, &LEFT, &watch.stop).await;
    assert_eq!(again.expect("it runs"), Started::Running, "it is not started twice");
    for sees in [&executor, &stage.executor()] {
        assert_eq!(sees.look(&scene.call, Boot::Current).await.expect("a look"), None, "it runs, to everybody");
        let output = sees.output_from(&scene.call, 0, 100, &Firewall::off()).await;
        assert_eq!((output.text.as_str(), output.bytes), ("one\n", 4), "what it has written can be read");
    }
    std::fs::write(scene.file("left.gate"), "").expect("a folder to write to");
    let record = executor.attend(&scene.call, Boot::Current, &watch).await.expect("a record");
    assert_eq!((record.status, record.code), (CommandEnd::Exited, Some(3)), "its end is told to who looks after it");
    assert_eq!(executor.look(&scene.call, Boot::Current).await.expect("a look"), Some(record.clone()));
    assert_eq!(scene.settle().await, record, "the same for everybody");
    assert_eq!(executor.output_from(&scene.call, 4, 100, &Firewall::off()).await.text, "two\n", "only what is new");

    let scene = Scene::new(stage, "brief");
    let background = Background { moment: Duration::from_secs(60), ..LEFT };
    let (late, order) = (stage.executor(), scene.order("exit 4"));
    let started = late.start(&scene.call, &order, &background, &watch.stop);
    let Started::Over(record) = started.await.expect("it starts") else { panic!("it has ended") };
    assert_eq!((record.status, record.code), (CommandEnd::Exited, Some(4)), "one that ends at once is over");
}

async fn a_command_that_is_left_running_is_ended_by_whoever_looks_after_it(stage: &dyn Stage) {
    for (name, is_other) in [("own", false), ("other", true)] {
        let scene = Scene::new(stage, name);
        let (executor, watch) = (stage.executor(), CommandWatch::default());
        let order = scene.order(&format!("touch {name}.begun; exec sleep 600"));
        executor.start(&scene.call, &order, &LEFT, &watch.stop).await.expect("it starts");
        scene.begun().await;
        let looks_after = if is_other { stage.executor() } else { Arc::clone(&executor) };
        let stop = async { watch.stop.cancel() };
        let (record, ()) = tokio::join!(looks_after.attend(&scene.call, Boot::Current, &watch), stop);
        assert_eq!(record.expect("a record").status, CommandEnd::Cancelled, "{name}");
        assert_eq!(scene.settle().await.status, CommandEnd::Cancelled, "{name}: for good");
    }
}

async fn no_more_are_left_running_than_may_be(stage: &dyn Stage) {
    let (executor, watch) = (stage.executor(), CommandWatch::default());
    let scenes = ["first", "second", "third"].map(|name| Scene::new(stage, name));
    let mut refused = 0;
    let order = |scene: &Scene<'_>| scene.order("exec sleep 600");
    let orders = scenes.each_ref().map(order);
    let start = |at: usize| executor.start(&scenes[at].call, &orders[at], &LEFT, &watch.stop);
    let started = tokio::join!(start(0), start(1), start(2));
    for started in [started.0, started.1, started.2] {
        match started {
            Ok(Started::Running) => {}
            Err(ExecutorError::NotStarted(why)) => {
                assert!(why.contains("2 commands run in the background already"), "{why}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 1, "of three at once, two may");
    watch.stop.cancel();
    for scene in &scenes {
        executor.attend(&scene.call, Boot::Current, &watch).await.expect("an end");
    }
    let (scene, watch) = (Scene::new(stage, "fourth"), CommandWatch::default());
    let started = executor.start(&scene.call, &scene.order("exec sleep 600"), &LEFT, &watch.stop).await;
    assert_eq!(started.expect("there is room again"), Started::Running);
    watch.stop.cancel();
    executor.attend(&scene.call, Boot::Current, &watch).await.expect("an end");
}

/// A call of the suite.
struct Scene<'s> {
    stage: &'s dyn Stage,
    call: CallId,
    name: String,
}

impl<'s> Scene<'s> {
    fn new(stage: &'s dyn Stage, name: &str) -> Self {
        Self { stage, call: CallId(format!("c1_{name}")), name: name.to_owned() }
    }

    fn order(&self, script: &str) -> CommandSpec {
        let spawn = Spawn::new(["sh", "-c", script], &self.stage.env(), self.stage.folder(), self.stage.confinement());
        CommandSpec { spawn, timeout_ms: 600_000, spool_bytes: 1 << 20, terminal: false, typing_ms: None }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.stage.folder().join(name)
    }

    /// Waits until the command says that it has begun.
    async fn begun(&self) {
        let begun = self.file(&format!("{}.begun", self.name));
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What somebody finds who was not there.
    async fn settle(&self) -> ExitRecord {
        self.settle_in(Boot::Current).await
    }

    /// The same after a restart of the machine, if that was in between.
    async fn settle_in(&self, boot: Boot) -> ExitRecord {
        let watch = CommandWatch::default();
        let found: Result<_, ExecutorError> = self.stage.executor().settle(&self.call, boot, &watch).await;
        found.expect("what came of it can be found")
    }
}
