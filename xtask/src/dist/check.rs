//! `cargo xtask dist --check`: packs the debug binary, installs each package into a fresh folder, and plays the demo from
//! there. The packing is the same as for what is shipped; only the binary is another one, which the tests have built.

mod action;

use crate::dist::build::Build;
use crate::dist::tools::{self, output, run, target_dir, write};
use crate::dist::{Wanted, lint, pack};
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(super) fn check() -> anyhow::Result<()> {
    lint::lint()?;
    let dir = target_dir()?.join("dist-check");
    let _ = std::fs::remove_dir_all(&dir);
    let packages = dir.join("packages");
    let wanted = Wanted::parse(&["--out", &packages.to_string_lossy()])?;
    let build = Build::debug()?;
    let files = pack(&build, &wanted)?;
    let found = |end: &str| {
        let is_it = |file: &&PathBuf| file.to_string_lossy().ends_with(end);
        files.iter().find(is_it).with_context(|| format!("a package {end}"))
    };
    let installed = [
        by_script(&dir, found(".tar.gz")?)?,
        by_pip(&dir, found(".whl")?)?,
        by_npm(&dir, &files)?,
        by_dpkg(&dir, found(".deb")?)?,
    ];
    for place in &installed {
        place.play(&dir, &build.version)?;
    }
    launcher_ends_as_the_binary_does(&dir, &installed)?;
    action::check(&dir.join("action"), &installed[0].piton)?;
    println!("{} packages were installed and have played the demo", installed.len());
    Ok(())
}

/// A package, installed.
struct Installed {
    how: &'static str,
    piton: PathBuf,
    /// The folders with manual pages, and the completions of the three shells.
    man: PathBuf,
    completions: Vec<PathBuf>,
}

fn by_script(dir: &Path, tarball: &Path) -> anyhow::Result<Installed> {
    let name = tarball.file_name().context("a tarball has a name")?;
    let server = Server::start(dir)?;
    let home = dir.join("script");
    let install = |release: &str, home: &Path| {
        let mut sh = Command::new("sh");
        sh.arg(dir.join("packages/install.sh")).env("HOME", home).env_remove("XDG_DATA_HOME");
        sh.env_remove("PITON_INSTALL_DIR").env("PITON_INSTALL_URL", format!("{}/{release}", server.url));
        sh
    };
    // What was changed on its way, what has no checksum, and what is not there installs nothing.
    let sums = std::fs::read_to_string(dir.join("packages/SHA256SUMS"))?;
    write(&dir.join("changed/SHA256SUMS"), &sums)?;
    let mut bytes = std::fs::read(tarball)?;
    bytes.push(0);
    write(&dir.join("changed").join(name), bytes)?;
    write(&dir.join("unlisted/SHA256SUMS"), "")?;
    tools::copy(tarball, &dir.join("unlisted").join(name))?;
    for (release, why) in
        [("changed", "is not what was released"), ("unlisted", "no checksum"), ("none", "cannot download")]
    {
        let victim = dir.join("refused");
        std::fs::create_dir_all(&victim)?;
        let out = install(release, &victim).output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(!out.status.success() && said.contains(why), "install.sh does not refuse {release}: {said}");
        ensure!(
            std::fs::read_dir(&victim)?.next().is_none(),
            "install.sh has refused {release}, and installed something"
        );
    }
    std::fs::create_dir_all(&home)?;
    run(&mut install("packages", &home))?;
    let share = home.join(".local/share");
    Ok(Installed {
        how: "install.sh",
        piton: home.join(".local/bin/piton"),
        man: share.join("man/man1"),
        completions: completions(&share),
    })
}

fn by_pip(dir: &Path, wheel: &Path) -> anyhow::Result<Installed> {
    let venv = dir.join("pip");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"];
    run(Command::new(venv.join("bin/python")).args(pip).arg(wheel))?;
    let share = venv.join("share");
    Ok(Installed {
        how: "pip",
        piton: venv.join("bin/piton"),
        man: share.join("man/man1"),
        completions: completions(&share),
    })
}

/// Without the registry: the packages of other platforms are not there, as on a machine of this one.
fn by_npm(dir: &Path, files: &[PathBuf]) -> anyhow::Result<Installed> {
    let prefix = dir.join("npm");
    let tarballs = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "tgz"));
    let flags = ["install", "--global", "--silent", "--offline", "--no-audit", "--no-fund", "--prefix"];
    run(Command::new("npm").args(flags).arg(&prefix).args(tarballs))?;
    Ok(Installed {
        how: "npm",
        piton: prefix.join("bin/piton"),
        man: prefix.join("share/man/man1"),
        completions: Vec::new(),
    })
}

fn by_dpkg(dir: &Path, deb: &Path) -> anyhow::Result<Installed> {
    let root = dir.join("deb");
    run(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(&root))?;
    let share = root.join("usr/share");
    let mut completions = completions(&share);
    completions[1] = share.join("zsh/vendor-completions/_piton");
    Ok(Installed { how: "dpkg", piton: root.join("usr/bin/piton"), man: share.join("man/man1"), completions })
}

fn completions(share: &Path) -> Vec<PathBuf> {
    crate::dist::files::SHELLS.iter().map(|(_, _, place)| share.join(place)).collect()
}

impl Installed {
    /// It, with no sessions and no settings but those of this check.
    fn piton(&self, dir: &Path) -> anyhow::Result<Command> {
        let config = dir.join("config.toml");
        write(&config, "")?;
        let mut command = Command::new(&self.piton);
        command.env("PITON_DATA_DIR", dir.join("data").join(self.how)).env("PITON_CONFIG", config);
        Ok(command)
    }

    /// Everything is in its place, and the demo ends with tests that pass.
    fn play(&self, dir: &Path, version: &str) -> anyhow::Result<()> {
        let how = self.how;
        let said = output(Command::new(&self.piton).arg("--version"))?;
        ensure!(said == format!("piton {version}\n"), "{how}: the version is {said}");
        let page = ["piton-run.1", "piton-run.1.gz"].map(|name| self.man.join(name));
        ensure!(page.iter().any(|page| page.exists()), "{how}: no {}", page[0].display());
        for file in &self.completions {
            let text = std::fs::read_to_string(file).with_context(|| format!("{how}: no {}", file.display()))?;
            ensure!(text.contains("doctor"), "{how}: {} does not complete", file.display());
        }
        let mut demo = self.piton(dir)?;
        demo.arg("demo").arg("--dir").arg(dir.join("demo").join(how));
        let out = demo.output().with_context(|| format!("cannot run {}", self.piton.display()))?;
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success() && said.contains("4 passed, 0 failed"), "{how}: the demo failed:\n{said}");
        println!("{how}: the demo has passed");
        Ok(())
    }
}

/// npm's launcher is a process of its own: it hands on the exit code, and signals.
fn launcher_ends_as_the_binary_does(dir: &Path, installed: &[Installed]) -> anyhow::Result<()> {
    let codes = installed.iter().map(|place| {
        let out = place.piton(dir)?.args(["session", "show", "ses_0000000000000000"]).output()?;
        Ok((place.how, out.status.code()))
    });
    let codes = codes.collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(codes.iter().all(|(_, code)| *code == codes[0].1 && *code != Some(0)), "exit codes differ: {codes:?}");
    for place in installed {
        ensure!(ended_by_sigterm(dir, place)? == Some(128 + 15), "{}: SIGTERM does not end a run", place.how);
    }
    Ok(())
}

/// The exit code of a run that is told to end while its model replies.
fn ended_by_sigterm(dir: &Path, place: &Installed) -> anyhow::Result<Option<i32>> {
    let cassette = dir.join("slow.jsonl");
    write(&cassette, "{\"text\":\"It takes ten minutes.\",\"delay_ms\":600000}\n")?;
    let mut run = place.piton(dir)?;
    run.args(["run", "--format", "stream-json", "--model", &format!("recorded/{}", cassette.display()), "wait"]);
    let mut process = run.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut lines = BufReader::new(process.stdout.take().context("its output is a pipe")?).lines();
    let asks = |line: &std::io::Result<String>| line.as_ref().map_or(true, |line| line.contains("step_started"));
    lines.find(asks).context("the model is asked")??;
    output(Command::new("kill").args(["-TERM", &process.id().to_string()]))?;
    // To its end: a binary that outlives its launcher would hold the pipe, and this check.
    lines.try_for_each(|line| line.map(drop))?;
    Ok(process.wait()?.code())
}

/// A server of a folder's files, until it is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        let mut python = Command::new("python3");
        python.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]).arg(dir);
        let mut process = python.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot run python3")?;
        let mut said = String::new();
        BufReader::new(process.stdout.take().context("its output is a pipe")?).read_line(&mut said)?;
        // Serving HTTP on 127.0.0.1 port 40123 (http://127.0.0.1:40123/) ...
        let url = said.split_once('(').and_then(|(_, rest)| rest.split_once("/)"));
        let url = url.map(|(url, _)| url.to_owned());
        let server = Self { process, url: url.clone().unwrap_or_default() };
        ensure!(url.is_some(), "the server of packages did not start: {said}");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
