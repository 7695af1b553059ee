//! What is measured, how often, and against which limit.

use super::play::{Run, attempt, cancelled_after, play, play_at_home, play_first, play_with};
use anyhow::{Context, ensure};
use piton_testkit::TempWorkspace;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// All measures by name, in the order of the page.
pub(super) const MEASURES: &[(&str, Measure)] = &[
    ("start", start),
    ("hello", hello),
    ("hundred_steps", hundred_steps),
    ("sandbox", sandbox),
    ("deltas", deltas),
    ("endless", endless),
    ("output_50mb", output_50mb),
    ("parallel_8", parallel_8),
    ("cancel", cancel),
    ("subagents", subagents),
    ("binary", binary),
    ("first_request", first_request),
    ("entries", entries),
    ("servers", servers),
    ("decode", decode),
    ("snapshot", snapshot),
    ("list_10000", list_10000),
    ("open_10000", open_10000),
    ("request_10000", request_10000),
    ("journal_step", journal_step),
    ("references", references),
    ("edit", edit),
    ("firewall", firewall),
    ("judge", judge),
];

/// The profile of what is shipped.
const SHIPPED: &str = "dist";

/// How often a run of a few milliseconds is repeated.
const SHORT_RUNS: usize = 30;
/// How often a run of about a second is repeated.
const LONG_RUNS: usize = 5;
/// How often a run is cancelled.
const CANCELS: usize = 15;
/// Steps in `hundred_steps`.
const STEPS: usize = 100;
/// How long a model thinks, a tenth of what real ones do: what Piton still has to do for the step before is done by then, and the
/// next runner is ready.
const THINKS_SECONDS: f64 = 0.06;
/// The same where eight are asked at once, whose runners share two cores.
const EIGHT_THINK_SECONDS: f64 = 0.25;
/// Commands of a run in `sandbox`.
const CALLS: usize = 30;
/// Runs with MCP servers in `servers`, and as many without.
const SERVER_RUNS: usize = 50;
/// Agents, skills and commands in `entries`.
const ENTRIES: usize = 500;
/// How many of its twenty servers work.
const WORKING_SERVERS: usize = 17;
/// How often each floor is tried before every run that it is a floor of.
const FLOOR_TRIES: usize = 30;
/// What a commit to the journal appends, about.
const FLOOR_BYTES: usize = 4096;

/// Subagents of a run in `subagents`, the steps of each, and how many of them work at a time.
const SUBAGENTS: usize = 8;
const STEPS_OF_SUBAGENT: usize = 50;
const AT_ONCE: usize = 4;

pub(super) type Measure = fn(&Stage) -> anyhow::Result<Vec<Row>>;

/// A line of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: Unit,
    pub(super) median: f64,
    /// `None` where there is only one number.
    pub(super) p90: Option<f64>,
    /// `None` for what is there to compare with.
    pub(super) limit: Option<Limit>,
}

/// What the median is held to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Limit {
    /// Whether a median keeps it.
    pub(super) fn is_kept_by(self, median: f64) -> bool {
        match self {
            Self::AtMost(most) => median <= most,
            Self::AtLeast(least) => median >= least,
        }
    }
}

/// What a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
    /// A million bytes.
    Megabytes,
    Bytes,
    /// A million bytes a second.
    MegabytesPerSecond,
    /// So many times what the same run found to be the least.
    Times,
    /// What has no unit, or one that its row names.
    Number,
}

/// What the measures share.
pub(super) struct Stage {
    /// The checkout that is measured.
    root: PathBuf,
    /// Cargo's profile by which everything is built.
    profile: String,
    binary: PathBuf,
    /// The short runs, which three measures look at.
    hellos: OnceCell<Vec<Run>>,
}

impl Stage {
    /// Builds the binary of a checkout and runs it once, so that no measure pays for reading it from the disk. Without a
    /// profile, the one that the checkout ships: older ones had none of their own for that.
    pub(super) fn new(root: &Path, profile: Option<&str>) -> anyhow::Result<Self> {
        let root = root.canonicalize().with_context(|| format!("no checkout is at {}", root.display()))?;
        let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("a checkout has a Cargo.toml")?;
        let has_dist = manifest.contains(&format!("[profile.{SHIPPED}]"));
        let profile = profile.unwrap_or(if has_dist { SHIPPED } else { "release" }).to_owned();
        let args = ["build", "--profile", &profile, "--package", "piton-cli"];
        eprintln!("cargo {} in {}", args.join(" "), root.display());
        let status = Command::new("cargo").args(args).current_dir(&root).status().context("cannot run cargo")?;
        ensure!(status.success(), "cargo {} failed in {}", args.join(" "), root.display());
        let binary = root.join("target").join(&profile).join("piton");
        let binary = binary.canonicalize().context("the build gave no binary")?;
        play(&binary, &hello_script())?;
        Ok(Self { root, profile, binary, hellos: OnceCell::new() })
    }

    /// By which everything was built.
    pub(super) fn profile(&self) -> &str {
        &self.profile
    }

    /// Forgets the short runs: the next measure plays them again.
    pub(super) fn forget(&mut self) {
        self.hellos = OnceCell::new();
    }

    /// The checkout that is measured, and its binary.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn binary(&self) -> &Path {
        &self.binary
    }

    pub(super) fn session_sizes(&self, what: &str, data: &Path) -> anyhow::Result<Vec<f64>> {
        self.numbers("piton-engine", "session_sizes", &[what, &data.to_string_lossy()])
    }

    /// The numbers that an example prints, one a line.
    fn numbers(&self, package: &str, example: &str, words: &[&str]) -> anyhow::Result<Vec<f64>> {
        let text = self.printed(package, example, words)?;
        text.lines().map(str::parse).collect::<Result<_, _>>().with_context(|| format!("{example} prints no numbers"))
    }

    /// What an example prints: a program of its own, since this one is not built for speed.
    fn printed(&self, package: &str, example: &str, words: &[&str]) -> anyhow::Result<String> {
        let mut args =
            vec!["run", "--profile", &self.profile, "--quiet", "--package", package, "--example", example, "--"];
        args.extend(words);
        let output = Command::new("cargo").args(&args).current_dir(&self.root).output().context("cannot run cargo")?;
        let error = || String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "cargo {} failed: {}", args.join(" "), error());
        String::from_utf8(output.stdout).with_context(|| format!("{example} prints no text"))
    }

    fn play(&self, script: &Value, times: usize) -> anyhow::Result<Vec<Run>> {
        (0..times).map(|_| play(&self.binary, script)).collect()
    }

    fn hellos(&self) -> anyhow::Result<&[Run]> {
        if self.hellos.get().is_none() {
            let _ = self.hellos.set(self.play(&hello_script(), SHORT_RUNS)?);
        }
        self.hellos.get().map(Vec::as_slice).context("no run to look at")
    }
}

impl Row {
    pub(super) fn of(
        name: &'static str,
        what: &'static str,
        unit: Unit,
        samples: impl IntoIterator<Item = f64>,
    ) -> Self {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| samples[(share * (samples.len() - 1) as f64).round() as usize];
        let p90 = (samples.len() > 1).then(|| at(0.9));
        Self { name, what, unit, median: at(0.5), p90, limit: None }
    }

    pub(super) fn at_most(self, limit: f64) -> Self {
        Self { limit: Some(Limit::AtMost(limit)), ..self }
    }

    fn at_least(self, limit: f64) -> Self {
        Self { limit: Some(Limit::AtLeast(limit)), ..self }
    }
}

fn start(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let times: Vec<f64> = stage.hellos()?.iter().map(|run| milliseconds(run.first_request_after())).collect();
    let version = || -> anyhow::Result<f64> {
        let started = Instant::now();
        ensure!(Command::new(&stage.binary).arg("--version").output()?.status.success(), "it has no version");
        Ok(milliseconds(started.elapsed()))
    };
    let floor = (0..SHORT_RUNS).map(|_| version()).collect::<anyhow::Result<Vec<f64>>>()?;
    let over = median(times.clone()) / median(floor.clone());
    let first =
        (0..SHORT_RUNS).map(|_| Ok(milliseconds(play_first(&stage.binary, &hello_script())?.first_request_after())));
    let first = first.collect::<anyhow::Result<Vec<f64>>>()?;
    let unit = Unit::Milliseconds;
    Ok(vec![
        Row::of("start", "process start to first request", unit, times),
        Row::of("start", "the first one since the machine was started, which tries out the sandbox", unit, first),
        Row::of("start", "the same, over `piton --version`", Unit::Times, [over]).at_most(10.0 / 3.0),
        Row::of("floor", "`piton --version` started and collected", unit, floor),
    ])
}

fn hello(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let runs = stage.hellos()?;
    let cpu = runs.iter().map(|run| run.report.cpu.as_secs_f64());
    Ok(vec![
        Row::of("hello", "CPU of a run with one reply", Unit::Seconds, cpu).at_most(0.03),
        Row::of("hello", "its peak memory", Unit::Megabytes, peaks(runs)).at_most(25.0),
    ])
}

fn hundred_steps(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let step = |step| json!({ "tools": [bash(&format!("echo hi {step}"))], "stall": THINKS_SECONDS });
    let commands = (1..=STEPS).map(step);
    let script: Value = commands.chain([json!({ "text": "done" })]).collect();
    let (mut fsyncs, mut execs, mut steps, mut last) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut over, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..LONG_RUNS {
        let (fsync, exec) = (fsync_floor()?, exec_floor()?);
        let mut run = play(&stage.binary, &script)?;
        let gaps: Vec<f64> = run.gaps().into_iter().map(milliseconds).collect();
        ensure!(results(&run).last().is_some_and(|text| text.contains("hi 100")), "the last command did not run");
        // The floors of just then: the machine is another from one second to the next.
        over.push(median(gaps.clone()) / (median(fsync.clone()) + median(exec.clone())));
        fsyncs.extend(fsync);
        execs.extend(exec);
        steps.extend(&gaps);
        last.extend(&gaps[gaps.len() - 10..]);
        run.requests.clear();
        runs.push(run);
    }
    let unit = Unit::Milliseconds;
    Ok(vec![
        Row::of("hundred_steps", "a step with `bash: echo`: end of an answer to next request", unit, steps),
        Row::of("hundred_steps", "the same, over `bash -c` and one durable write", Unit::Times, over).at_most(1.5),
        Row::of("hundred_steps", "the last ten of its hundred steps", unit, last),
        Row::of("hundred_steps", "peak memory of its biggest process", Unit::Megabytes, peaks(&runs)).at_most(40.0),
        Row::of("floor", "4 KiB appended to a file, and fsync", unit, fsyncs),
        Row::of("floor", "`bash -c 'echo hi'` started and collected", unit, execs),
    ])
}

/// What a call costs in the sandbox above the same call without, run by run in turns.
fn sandbox(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let call = |number| json!({ "tools": [bash(&format!("true # {number}"))], "stall": THINKS_SECONDS });
    let script: Value = (1..=CALLS).map(call).chain([json!({ "text": "done" })]).collect();
    let (mut first, mut later, mut cpu, mut without) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..2 * LONG_RUNS {
        let off = play_with(&stage.binary, &script, &["--sandbox", "off"])?;
        let on = play_with(&stage.binary, &script, &["--sandbox", "workspace-write"])?;
        let gaps = |run: &Run| run.gaps().into_iter().map(milliseconds).collect::<Vec<f64>>();
        let (off_gaps, on_gaps) = (gaps(&off), gaps(&on));
        first.push(on_gaps[0] - off_gaps[0]);
        later.push(median(on_gaps[1..].to_vec()) - median(off_gaps[1..].to_vec()));
        cpu.push((milliseconds(on.report.cpu) - milliseconds(off.report.cpu)) / CALLS as f64);
        without.extend(&off_gaps[1..]);
    }
    let unit = Unit::Milliseconds;
    Ok(vec![
        Row::of("sandbox", "what it adds to `bash: true`, a runner at hand: medians of a run", unit, later)
            .at_most(1.5),
        Row::of("sandbox", "what it adds to the first call", unit, first).at_most(10.0),
        Row::of("sandbox", "CPU that it adds to a call", unit, cpu).at_most(6.0),
        Row::of("floor", "the call without a sandbox", unit, without),
    ])
}

fn deltas(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let hello = Row::of("", "", Unit::Seconds, stage.hellos()?.iter().map(|run| run.report.cpu.as_secs_f64())).median;
    let words: Vec<String> = (0..20_000).map(|number| format!("word{} ", number % 977)).collect();
    let above = |script: Value| -> anyhow::Result<Vec<f64>> {
        let runs = stage.play(&script, LONG_RUNS)?;
        Ok(runs.iter().map(|run| run.report.cpu.as_secs_f64() - hello).collect())
    };
    let together = above(json!([{ "pieces": words }]))?;
    // Longer than any event: each is written on its own.
    let apart = above(json!([{ "pieces": words, "chunk_bytes": 100_000 }]))?;
    Ok(vec![
        Row::of("deltas", "20,000 text deltas: CPU above hello", Unit::Seconds, together).at_most(0.15),
        Row::of("deltas", "the same, each delta written to the socket alone", Unit::Seconds, apart),
    ])
}

/// What it costs to hear an answer that is given up for its length.
fn endless(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let hello = median(peaks(stage.hellos()?).collect());
    let script = json!([{ "text": "lorem ipsum dolor\n".repeat(57), "deltas": 12_000 }]);
    let above = (0..LONG_RUNS).map(|_| {
        let (run, said) = attempt(&stage.binary, &script)?;
        ensure!(said.contains("the answer has no end"), "it was heard out:\n{said}");
        Ok(run.report.peak_bytes as f64 / 1e6 - hello)
    });
    let above = above.collect::<anyhow::Result<Vec<f64>>>()?;
    let what = "an answer without an end, given up after 8 MiB: peak memory above hello";
    Ok(vec![Row::of("endless", what, Unit::Megabytes, above).at_most(2.0 * 8.39)])
}

fn output_50mb(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let command = bash("yes 0123456789 | head -c 50000000");
    let runs = stage.play(&json!([{ "tools": [command] }, { "text": "done" }]), LONG_RUNS)?;
    let has_output = |run: &Run| results(run).iter().any(|text| text.contains("0123456789"));
    ensure!(runs.iter().all(has_output), "the output did not come");
    let what = "50 MB of output: peak memory of the biggest process";
    Ok(vec![Row::of("output_50mb", what, Unit::Megabytes, peaks(&runs)).at_most(60.0)])
}

fn parallel_8(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    // They differ, or they would be taken for a model that repeats itself.
    let commands: Vec<Value> = (1..=8).map(|number| bash(&format!("sleep 0.5 # {number}"))).collect();
    let runs = stage.play(&json!([{ "tools": commands }, { "text": "done" }]), LONG_RUNS)?;
    let times = runs.iter().flat_map(Run::gaps).map(|gap| gap.as_secs_f64());
    Ok(vec![Row::of("parallel_8", "a step with eight `sleep 0.5`", Unit::Seconds, times).at_most(0.55)])
}

/// What a subagent costs: until it is asked for the first time, a step among others', and stopping the tree.
fn subagents(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let told = |number: usize| format!("part {number}");
    let task = |number| {
        let args = json!({ "description": "a part", "prompt": told(number), "subagent_type": "general" });
        json!({ "name": "task", "args": args })
    };
    let one = json!([{ "tools": [task(1)] }, { "of": told(1), "text": "done" }, { "text": "done" }]);
    let begins = stage.play(&one, SHORT_RUNS)?.into_iter().map(|run| milliseconds(run.gaps()[0])).collect::<Vec<_>>();

    let step = |number| json!({ "tools": [bash(&format!("echo hi {number}"))], "stall": EIGHT_THINK_SECONDS });
    let alone: Value = (1..=STEPS_OF_SUBAGENT).map(step).chain([json!({ "text": "done" })]).collect();
    let of = |number: usize| {
        let step = move |at| {
            let mut step = step(at);
            step["of"] = json!(told(number));
            step
        };
        (1..=STEPS_OF_SUBAGENT).map(step).chain([json!({ "of": told(number), "text": "done" })])
    };
    let calls = json!({ "tools": (1..=SUBAGENTS).map(task).collect::<Vec<_>>() });
    let tree: Value =
        [calls].into_iter().chain((1..=SUBAGENTS).flat_map(of)).chain([json!({ "text": "done" })]).collect();
    let (mut over, mut peak) = (Vec::new(), Vec::new());
    for _ in 0..LONG_RUNS {
        let alone = play(&stage.binary, &alone)?;
        let mut all = play(&stage.binary, &tree)?;
        peak.push(all.report.peak_bytes as f64 / 1e6);
        let (mut own, mut gaps) = (vec![Vec::new(); SUBAGENTS], Vec::new());
        for request in std::mem::take(&mut all.requests) {
            let messages = request.body["messages"].as_array().map_or(&[][..], Vec::as_slice);
            let first = messages.iter().find(|message| message["role"] == "user");
            let first = first.map(|message| message["content"].to_string()).unwrap_or_default();
            if let Some(number) = (0..SUBAGENTS).find(|number| first.contains(&told(number + 1))) {
                own[number].push((request.arrived, request.answered));
            }
        }
        for times in &own {
            let pairs = times.windows(2).filter_map(|pair| Some(pair[1].0.saturating_duration_since(pair[0].1?)));
            gaps.extend(pairs.map(milliseconds));
        }
        ensure!(gaps.len() == SUBAGENTS * STEPS_OF_SUBAGENT, "{} steps of subagents were seen", gaps.len());
        over.push(median(gaps) / median(alone.gaps().into_iter().map(milliseconds).collect()));
    }
    let at_work = format!("echo >> n; [ $(wc -l < n) = {AT_ONCE} ] && touch started; sleep 600");
    let waits = |number| json!({ "of": told(number), "tools": [bash(&at_work)] });
    let waiting: Value = [json!({ "tools": (1..=SUBAGENTS).map(task).collect::<Vec<_>>() })]
        .into_iter()
        .chain((1..=SUBAGENTS).map(waits))
        .collect();
    let cancels = (0..CANCELS).map(|_| Ok(milliseconds(cancelled_after(&stage.binary, &waiting)?)));
    let cancels = cancels.collect::<anyhow::Result<Vec<f64>>>()?;
    let unit = Unit::Milliseconds;
    Ok(vec![
        Row::of("subagents", "`task`: end of its caller's answer to the subagent's first request", unit, begins)
            .at_most(10.0),
        Row::of(
            "subagents",
            "a step of eight with fifty each, whose models think 0.25 s, over one of a session alone",
            Unit::Times,
            over,
        )
        .at_most(1.2),
        Row::of("subagents", "their peak memory", Unit::Megabytes, peak).at_most(80.0),
        Row::of("subagents", "Ctrl-C with four at work, until the last process is gone", unit, cancels).at_most(200.0),
    ])
}

/// From Ctrl-C until the last process is gone: Piton, its runners, and whatever the command started.
fn cancel(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    // One that ends when it is asked to, and what left its group with it.
    let willing = "(setsid sleep 600 &); nohup sleep 600 >/dev/null 2>&1 & sleep 600 | sleep 600 & touch started; wait";
    let stubborn = "trap '' TERM INT HUP; (setsid sleep 600 &); nohup sleep 600 >/dev/null 2>&1 & sleep 600 & \
                    touch started; while :; do sleep 600; done";
    let after = |command: &str| -> anyhow::Result<Vec<f64>> {
        let script = json!([{ "tools": [bash(command)] }]);
        (0..CANCELS).map(|_| Ok(milliseconds(cancelled_after(&stage.binary, &script)?))).collect()
    };
    let unit = Unit::Milliseconds;
    Ok(vec![
        Row::of("cancel", "Ctrl-C until the last process is gone: children, daemons", unit, after(willing)?)
            .at_most(200.0),
        Row::of("cancel", "the same, all of them deaf to SIGTERM", unit, after(stubborn)?).at_most(200.0),
    ])
}

fn binary(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let bytes = std::fs::metadata(&stage.binary)?.len() as f64;
    Ok(vec![Row::of("binary", "the stripped binary", Unit::Megabytes, [bytes / 1e6]).at_most(30.0)])
}

fn first_request(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let body = &stage.hellos()?[0].requests[0].body;
    let messages = body["messages"].as_array().context("the request has no messages")?;
    let is_system = |message: &&Value| message["role"] == "system" || message["role"] == "developer";
    let prompt: usize = messages.iter().filter(is_system).map(|message| message["content"].to_string().len()).sum();
    ensure!(prompt > 0 && body["tools"].is_array(), "the request has no system prompt, or no tools");
    let bytes = (prompt + body["tools"].to_string().len()) as f64;
    let what = "tools and system prompt in the first request, as JSON";
    Ok(vec![Row::of("first_request", what, Unit::Bytes, [bytes]).at_most(8192.0)])
}

/// What 500 agents, skills and commands of the user's add to the time until the first request, run by run in turns.
fn entries(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let write = |home: &TempWorkspace| {
        for number in 0..ENTRIES {
            let text =
                format!("---\nname: entry-{number}\ndescription: Does the work of number {number}.\n---\nDo it.\n");
            match number % 3 {
                0 => home.write(format!("agents/entry-{number}.md"), text),
                1 => home.write(format!("skills/entry-{number}/SKILL.md"), text),
                _ => home.write(format!("commands/entry-{number}.md"), text.replace("name:", "argument-hint:")),
            }
        }
    };
    let script = hello_script();
    let first = |prepare: &dyn Fn(&TempWorkspace)| {
        play_at_home(&stage.binary, &script, &[], prepare).map(|run| milliseconds(run.first_request_after()))
    };
    let (mut added, mut without) = (Vec::new(), Vec::new());
    for _ in 0..SHORT_RUNS {
        let none = first(&|_| ())?;
        added.push(first(&write)? - none);
        without.push(none);
    }
    let unit = Unit::Milliseconds;
    Ok(vec![
        Row::of("entries", "what 500 agents, skills and commands add to the first request", unit, added).at_most(5.0),
        Row::of("entries", "start to first request without any", unit, without),
    ])
}

/// What twenty MCP servers, of which three do not work, add to the time until the first request, run by run in turns.
fn servers(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let program = stage.root.join("examples/mcp/server.py");
    let mut servers = json!({
        "hanging": { "command": "sleep", "args": ["1000"] },
        "missing": { "command": "no-such-program" },
        "crashing": { "command": "false" },
    });
    for number in 0..WORKING_SERVERS {
        servers[format!("server-{number}")] = json!({ "command": "python3", "args": [program] });
    }
    let (script, config) = (hello_script(), json!({ "mcpServers": servers }).to_string());
    let first = |flags: &[&str]| play_with(&stage.binary, &script, flags).map(|run| run.first_request_after());
    let mut added = Vec::new();
    for _ in 0..SERVER_RUNS {
        let without = milliseconds(first(&[])?);
        added.push(milliseconds(first(&["--mcp-config", &config])?) - without);
    }
    let what = "what 20 MCP servers add to the first request: one hangs, one is missing, one crashes";
    Ok(vec![Row::of("servers", what, Unit::Milliseconds, added).at_most(1.0)])
}

fn decode(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let speeds = stage.numbers("piton-models", "decode_speed", &[])?;
    ensure!(!speeds.is_empty(), "decode_speed printed nothing");
    let what = "a Chat stream of 20,000 deltas decoded, on one core";
    Ok(vec![Row::of("decode", what, Unit::MegabytesPerSecond, speeds).at_least(300.0)])
}

fn snapshot(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let text = stage.printed("piton-tools", "snapshot_speed", &[])?;
    let row = |word: &str, what, unit| -> anyhow::Result<Row> {
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        let numbers = line.with_context(|| format!("snapshot_speed says nothing of {word}"))?;
        let numbers: Vec<f64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Row::of("snapshot", what, unit, numbers))
    };
    let (ms, s, mb) = (Unit::Milliseconds, Unit::Seconds, Unit::Megabytes);
    Ok(vec![
        row("unchanged_ms", "of an unchanged repository of 50,000 files", ms)?.at_most(150.0),
        row("one_changed_ms", "the same, one file changed", ms)?.at_most(200.0),
        row("restore_s", "1,000 changed files taken back", s)?.at_most(1.0),
        row("first_s", "the first one, which reads all 50,000 files", s)?,
        row("disk_mb", "room it takes on the disk", mb)?,
        row("first_alone_s", "the first one where nothing can be shared with git", s)?,
        row("disk_alone_mb", "room that takes", mb)?,
    ])
}

fn list_10000(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let data = tempfile::tempdir()?;
    stage.session_sizes("list", data.path())?;
    let list = |limit: &str| -> anyhow::Result<f64> {
        let mut command = Command::new(&stage.binary);
        command.args(["session", "list", "--all", "-n", limit]).env("PITON_DATA_DIR", data.path());
        let started = Instant::now();
        let output = command.output()?;
        let took = milliseconds(started.elapsed());
        let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        ensure!(lines.to_string() == limit, "{lines} of {limit} sessions were listed");
        Ok(took)
    };
    // The first one makes the index.
    list("20")?;
    let times = |limit: &str| (0..SHORT_RUNS).map(|_| list(limit)).collect::<anyhow::Result<Vec<f64>>>();
    let unit = Unit::Milliseconds;
    Ok(vec![
        Row::of("list_10000", "`piton session list` of 10,000 sessions, the newest 20 printed", unit, times("20")?)
            .at_most(15.0),
        Row::of("list_10000", "the same, all 10,000 printed", unit, times("10000")?),
        Row::of(
            "floor",
            "10,000 databases looked for, and at, by one thread",
            unit,
            looks_at(&data.path().join("sessions"))?,
        ),
    ])
}

/// Milliseconds to ask for size and time of each session's database.
fn looks_at(sessions: &Path) -> anyhow::Result<Vec<f64>> {
    let look = || -> anyhow::Result<f64> {
        let started = Instant::now();
        for session in sessions.read_dir()? {
            session?.path().join("journal.db").metadata()?;
        }
        Ok(milliseconds(started.elapsed()))
    };
    (0..SHORT_RUNS).map(|_| look()).collect()
}

fn open_10000(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let data = tempfile::tempdir()?;
    // The first one makes the session.
    stage.session_sizes("open", data.path())?;
    let times = stage.session_sizes("open", data.path())?;
    let peaks = stage.session_sizes("memory", data.path())?;
    let what = "a session of 10,000 steps opened to go on with it";
    Ok(vec![
        Row::of("open_10000", what, Unit::Milliseconds, times).at_most(50.0),
        Row::of("open_10000", "peak memory of the process that opens it", Unit::Megabytes, peaks).at_most(60.0),
    ])
}

fn request_10000(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let data = tempfile::tempdir()?;
    let times = stage.session_sizes("request", data.path())?;
    let what = "the next request of a session of 10,000 steps built";
    Ok(vec![Row::of("request_10000", what, Unit::Milliseconds, times).at_most(5.0)])
}

fn journal_step(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let (mut on_disk, mut in_memory) = (Vec::new(), Vec::new());
    for _ in 0..LONG_RUNS {
        let data = tempfile::tempdir()?;
        let [disk, memory] = stage.session_sizes("steps", data.path())?[..] else {
            anyhow::bail!("two numbers are wanted")
        };
        on_disk.push(disk);
        in_memory.push(memory);
    }
    let unit = Unit::Milliseconds;
    let more = on_disk.iter().zip(&in_memory).map(|(disk, memory)| disk - memory);
    Ok(vec![
        Row::of("journal_step", "a step with `read`: what the journal on the disk adds", unit, more).at_most(1.0),
        Row::of("journal_step", "the step with the journal on the disk", unit, on_disk),
        Row::of("journal_step", "the step with the journal in memory", unit, in_memory),
    ])
}

fn references(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let times = stage.numbers("piton-engine", "references_speed", &[])?;
    let what = "`@dir` of 5,000 files, to the cap of 50,000 tokens";
    Ok(vec![Row::of("references", what, Unit::Milliseconds, times).at_most(300.0)])
}

fn edit(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let text = stage.printed("piton-tools", "edit_speed", &[])?;
    let row = |word: &str, what| -> anyhow::Result<Row> {
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        let numbers = line.with_context(|| format!("edit_speed says nothing of {word}"))?;
        let numbers: Vec<f64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Row::of("edit", what, Unit::Milliseconds, numbers))
    };
    Ok(vec![
        row("exact_ms", "an edit of a file of 10 MB, its text there as written")?.at_most(50.0),
        row("indentation_ms", "the same, found with another indentation")?,
        row("anchors_ms", "the same, found by its first and last line")?,
        row("floor_ms", "10 MB written and synced")?,
    ])
}

fn firewall(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let text = stage.printed("piton-core", "firewall_speed", &[])?;
    let row = |word: &str, what, unit| -> anyhow::Result<Row> {
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        let numbers = line.with_context(|| format!("firewall_speed says nothing of {word}"))?;
        let numbers: Vec<f64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Row::of("firewall", what, unit, numbers))
    };
    let speed = Unit::MegabytesPerSecond;
    Ok(vec![
        row("clean_mb_s", "50 MB of output without secrets, 40 values known, on one core", speed)?.at_least(200.0),
        row("secrets_mb_s", "the same with a secret every 14 KB", speed)?,
        row("ready_ms", "a firewall of 40 values made, and a first prompt cleaned", Unit::Milliseconds)?.at_most(1.0),
    ])
}

fn judge(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let text = stage.printed("piton-shell", "speed", &[])?;
    let row = |word: &str, what| -> anyhow::Result<Row> {
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        let numbers = line.with_context(|| format!("speed says nothing of {word}"))?;
        let numbers: Vec<f64> = numbers.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(Row::of("judge", what, Unit::Milliseconds, numbers))
    };
    Ok(vec![
        row("usual_ms", "a command of 2 KB read")?.at_most(1.0),
        row("worst_ms", "the worst of 34 texts of 256 KB that want to be slow")?.at_most(50.0),
        row("short_ms", "5,000 short commands, one after the other")?,
    ])
}

fn hello_script() -> Value {
    json!([{ "text": "hello" }])
}

fn bash(command: &str) -> Value {
    json!({ "name": "bash", "args": { "command": command } })
}

/// The tool results that the last request carries.
fn results(run: &Run) -> Vec<String> {
    let messages = run.requests.last().and_then(|request| request.body["messages"].as_array());
    let results = messages.into_iter().flatten().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].to_string()).collect()
}

fn peaks(runs: &[Run]) -> impl Iterator<Item = f64> {
    runs.iter().map(|run| run.report.peak_bytes as f64 / 1e6)
}

/// The middle one of some numbers.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What the disk asks for a commit, in milliseconds.
fn fsync_floor() -> anyhow::Result<Vec<f64>> {
    let folder = tempfile::tempdir()?;
    let mut file = File::create(folder.path().join("floor"))?;
    let mut samples = Vec::new();
    for _ in 0..FLOOR_TRIES {
        // As long as the model thinks between two steps: a processor that rests is slower to begin with.
        std::thread::sleep(Duration::from_secs_f64(THINKS_SECONDS));
        let started = Instant::now();
        file.write_all(&[b'x'; FLOOR_BYTES])?;
        file.sync_all()?;
        samples.push(milliseconds(started.elapsed()));
    }
    Ok(samples)
}

/// What the system asks for a command, in milliseconds.
fn exec_floor() -> anyhow::Result<Vec<f64>> {
    let mut samples = Vec::new();
    for _ in 0..FLOOR_TRIES {
        std::thread::sleep(Duration::from_secs_f64(THINKS_SECONDS));
        let started = Instant::now();
        let output = Command::new("bash").args(["-c", "echo hi"]).output()?;
        ensure!(output.stdout == b"hi\n", "bash does not work");
        samples.push(milliseconds(started.elapsed()));
    }
    Ok(samples)
}
