//! Programs that run their arguments, each with the grammar of its own options: what they run is judged, not they.

use crate::expand::Field;
use crate::options::{Grammar, Token};
use crate::parse::is_name;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A program whose operands are the words of another command.
struct Wrapper {
    /// Its names, blanks between. With a `/`, a program and its subcommand: `uv/run`.
    names: &'static str,
    grammar: Grammar,
    /// Operands in front of the command.
    operands: usize,
    traits: &'static [Trait],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trait {
    /// Takes `NAME=value` in front of the command.
    Assigns,
    /// Runs it as somebody else, elsewhere, or fetches it first: a rule must name the wrapper.
    Elevates,
    /// Adds arguments that come from its input.
    Adds,
    /// Gives the words, joined, to a shell.
    Joins,
    /// Its own input is the command's (all but those that give it none).
    KeepsInput,
    /// Runs the command only after `--`.
    AfterDashes,
}
use Trait::{Adds, AfterDashes, Assigns, Elevates, Joins, KeepsInput};

/// What is behind a wrapper.
#[derive(Debug)]
pub(crate) enum Inside {
    /// A command: its words, and what comes with the wrapper.
    Command(Vec<Field>),
    /// A text for a shell.
    Code(Vec<Field>),
    /// Nothing: the wrapper alone.
    Nothing,
    /// It cannot be told where the command begins, or a text is known only when it runs.
    Unknowable,
}

/// A wrapper that was looked through.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) inside: Inside,
    /// The wrapper with its own arguments, for people and rules.
    pub(crate) shown: String,
    /// `NAME=value` that it sets.
    pub(crate) assignments: Vec<(String, String)>,
    /// Whether a rule must name the wrapper.
    pub(crate) elevates: bool,
    /// Whether the command reads the wrapper's input.
    pub(crate) keeps_input: bool,
    /// Whether it gives the command arguments that come from its input.
    pub(crate) adds: bool,
    /// What its own options do.
    pub(crate) own: Own,
}

/// What the options of a wrapper do beside running the command.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Options that run something, or take orders from elsewhere.
    pub(crate) risky: Vec<String>,
    /// Texts that it gives to a shell.
    pub(crate) code: Vec<Field>,
    pub(crate) writes: Vec<Field>,
    pub(crate) reads: Vec<Field>,
    /// The folder that it runs the command in.
    pub(crate) moves: Vec<Field>,
    /// Variables that it sets, each with its value where there is one.
    pub(crate) sets: Vec<Field>,
    /// What stands in its arguments for a line of its input: `{}` of `xargs -I {}`.
    stands_for: Option<Field>,
    /// Whether it adds what it reads at the end all the same.
    adds: bool,
    /// Whether it takes its input apart in another way than at blanks and quotes.
    pub(crate) is_split_otherwise: bool,
}

/// Options of wrappers by which the command runs in another folder. Letters and names without dashes.
const MOVES: &[(&str, &str)] = &[
    ("env genv", "C chdir"),
    ("sudo", "D chdir"),
    ("run0", "D chdir"),
    ("systemd-run", "working-directory"),
    ("unshare", "w wd"),
    ("nsenter", "wd"),
];

/// Options of wrappers that set a variable for what they run: `NAME` or `NAME=value`. Letters and names without dashes.
const SETS: &[(&str, &str)] = &[
    ("xargs gxargs", "process-slot-var"),
    ("strace", "E"),
    ("systemd-run", "E setenv"),
    ("run0", "setenv"),
    ("parallel", "env"),
];

/// Wrappers that start a shell where no command is given.
const SHELLS: &str =
    "parallel ssh chroot unshare nsenter setarch linux32 linux64 i386 x86_64 fakeroot run0 gosu su-exec";

/// Whether a wrapper with these arguments and no command starts a shell, which reads its input.
pub(crate) fn starts_shell(name: &str, arguments: &[Field]) -> bool {
    let asks = |field: &Field| {
        let letters = field.text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        letters.is_some_and(|letters| letters.contains(['s', 'i', 'S']))
            || matches!(field.text.as_str(), "--shell" | "--login")
    };
    let by_option = matches!(name, "sudo" | "doas" | "systemd-run") && arguments.iter().any(asks);
    by_option || SHELLS.split(' ').any(|known| known == name)
}

/// Options of wrappers that do something themselves: those that run or load something, those whose value is code for a shell,
/// and those whose value is a file that is written or read. Letters and names without dashes.
const OWN_OPTIONS: &[(&str, &str, &str, &str, &str)] = &[
    ("ssh", "F I S o E m", "o", "E", "F i"),
    (
        "hyperfine",
        "prepare p setup s conclude C cleanup c shell S",
        "prepare p setup s conclude C cleanup c",
        "export-json export-markdown export-csv",
        "",
    ),
    ("parallel", "rpl sshlogin S sshloginfile profile J tmpdir", "", "results joblog", "a arg-file"),
    ("xargs gxargs", "", "", "", "a arg-file"),
    ("npx bunx pnpx npm pnpm yarn", "c call shell-auto-fallback", "c call", "", ""),
    ("strace ltrace", "o", "", "o", ""),
    ("time perf", "", "", "o output", ""),
    ("valgrind", "", "", "log-file xml-file", "suppressions"),
    ("xvfb-run", "f auth-file", "", "e error-file", ""),
    ("systemd-run", "p property E setenv M machine H host", "", "", ""),
    ("uv", "with-editable with-requirements directory project env-file index python", "", "", "with-requirements"),
    ("docker podman", "privileged env-file", "", "", "env-file"),
    ("sudo", "C c D R t T", "", "", ""),
];

/// The option that takes the value: of a cluster of letters the last.
fn option_of<'n>(word: &str, name: &'n str) -> &'n str {
    let last = name.char_indices().last().map_or(0, |(at, _)| at);
    if word.starts_with("--") { name } else { &name[last..] }
}

/// What an option of a wrapper does by [`OWN_OPTIONS`].
fn own_option(program: &str, word: &str, name: &str, value: Option<Field>, own: &mut Own) {
    let letter = option_of(word, name);
    let has = |list: &str, word: &str| list.split(' ').any(|known| !known.is_empty() && known == word);
    let moves = MOVES.iter().any(|(names, options)| has(names, program) && has(options, letter));
    if moves {
        // As behind `git -C`, what it runs may find other settings there.
        own.risky.push(word.to_string());
        own.reads.extend(value.clone());
        own.moves.extend(value.clone());
    }
    match (program, letter) {
        ("xargs" | "gxargs", "I" | "J" | "i" | "replace") => {
            own.stands_for = Some(value.clone().unwrap_or_else(|| Field::literal("{}")));
            own.adds = letter == "J";
        }
        // The last of these options counts.
        ("xargs" | "gxargs", "d" | "delimiter" | "E" | "e" | "eof") => own.is_split_otherwise = true,
        ("xargs" | "gxargs", "n" | "max-args" | "L" | "l" | "max-lines") => own.adds = true,
        _ => {}
    }
    let sets = SETS.iter().any(|(names, options)| has(names, program) && has(options, letter));
    own.sets.extend(value.clone().filter(|_| sets));
    let Some((_, runs, code, writes, reads)) = OWN_OPTIONS.iter().find(|row| has(row.0, program)) else { return };
    if has(runs, letter) {
        own.risky.push(word.to_string());
    }
    let Some(value) = value else { return };
    // `strace -o '|code'` gives what it prints to a shell.
    if let Some(text) = value.text.strip_prefix(['|', '!']).filter(|_| program == "strace" && letter == "o") {
        own.code.push(crate::expand::tail(&value, text));
    } else if has(writes, letter) {
        own.writes.push(value.clone());
    }
    if has(reads, letter) {
        own.reads.push(value.clone());
    }
    if has(code, letter) {
        // Of `-o ProxyCommand=code` what is behind the sign; other settings are no code.
        let setting = value.text.split_once(['=', ' ']).filter(|_| program == "ssh");
        let is_code = |name: &str| name.to_lowercase().ends_with("command");
        match setting {
            Some((name, text)) if is_code(name) => own.code.push(crate::expand::tail(&value, text)),
            None if program != "ssh" => own.code.push(value),
            Some(_) | None => {}
        }
    }
}

const fn wrapper(
    names: &'static str,
    short: &'static str,
    long: &'static str,
    operands: usize,
    traits: &'static [Trait],
) -> Wrapper {
    Wrapper { names, grammar: Grammar { short, long }, operands, traits }
}

/// The table.
const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "env genv",
        "iu:0vC:S:a:",
        "ignore-environment null unset= chdir= split-string= debug block-signal? default-signal? ignore-signal? list-signal-handling argv0=",
        0,
        &[Assigns, KeepsInput],
    ),
    wrapper("command", "p", "", 0, &[KeepsInput]),
    wrapper("builtin", "", "", 0, &[KeepsInput]),
    wrapper("exec", "cla:", "", 0, &[KeepsInput]),
    wrapper("time", "pf:o:avqV", "portability format= output= append verbose quiet", 0, &[KeepsInput]),
    wrapper("jobs/-x", "", "", 0, &[KeepsInput]),
    wrapper(
        "sudo",
        "AbBEeHnPSsikKvlu:g:h:p:C:c:D:R:r:t:T:U:",
        "askpass background bell preserve-env? edit set-home non-interactive preserve-groups stdin user= group= host= prompt= close-from= chdir= chroot= role= type= command-timeout= other-user= login shell list validate reset-timestamp remove-timestamp",
        0,
        &[Assigns, Elevates, KeepsInput],
    ),
    wrapper("doas", "Lnsa:C:u:", "", 0, &[Elevates, KeepsInput]),
    wrapper("pkexec", "u:", "disable-internal-agent keep-cwd user=", 0, &[Elevates, KeepsInput]),
    wrapper("run0", "u:g:D:", "user= group= chdir= setenv= nice= unit= property=", 0, &[Elevates, KeepsInput]),
    wrapper(
        "systemd-run",
        "dGqrtPSp:u:E:M:H:",
        "scope user system pty pipe quiet wait collect unit= property= slice= uid= gid= nice= working-directory= setenv= on-active= on-boot= on-calendar= description= same-dir shell service-type=",
        0,
        &[Elevates, KeepsInput],
    ),
    wrapper("timeout gtimeout", "k:s:vfp", "kill-after= signal= foreground preserve-status verbose", 1, &[KeepsInput]),
    wrapper("nice", "n:0123456789", "adjustment=", 0, &[KeepsInput]),
    wrapper("ionice", "c:n:t", "class= classdata= ignore", 0, &[KeepsInput]),
    wrapper(
        "chrt",
        "abfioorvmR",
        "batch deadline fifo idle other rr reset-on-fork verbose sched-runtime= sched-period= sched-deadline=",
        1,
        &[KeepsInput],
    ),
    wrapper("taskset", "ac", "all-tasks cpu-list", 1, &[KeepsInput]),
    wrapper(
        "numactl",
        "i:N:m:C:l",
        "interleave= cpunodebind= membind= physcpubind= localalloc preferred=",
        0,
        &[KeepsInput],
    ),
    wrapper("nohup chronic", "", "", 0, &[KeepsInput]),
    wrapper("setsid", "cfw", "ctty fork wait", 0, &[KeepsInput]),
    wrapper("stdbuf unbuffer", "i:o:e:p", "input= output= error=", 0, &[KeepsInput]),
    wrapper(
        "setarch linux32 linux64 i386 x86_64",
        "RvFZLXBISTq3",
        "addr-no-randomize verbose 32bit uname-2.6 4gb 3gb",
        0,
        &[KeepsInput],
    ),
    wrapper("choom", "n:", "adjust=", 0, &[KeepsInput]),
    wrapper("prlimit", "", "as? core? cpu? data? fsize? nofile? nproc? rss? stack?", 0, &[KeepsInput]),
    wrapper(
        "catchsegv dbus-run-session fakeroot eatmydata proxychains proxychains4 torsocks tsocks",
        "q",
        "",
        0,
        &[KeepsInput],
    ),
    wrapper("caffeinate", "disumt:w:", "", 0, &[KeepsInput]),
    wrapper("arch", "e:d:", "-arm64 -x86_64 -arm64e", 0, &[KeepsInput]),
    wrapper(
        "xvfb-run",
        "ae:f:n:lp:s:w:",
        "auto-servernum error-file= auth-file= server-num= listen-tcp xauth-protocol= server-args= wait=",
        0,
        &[KeepsInput],
    ),
    wrapper(
        "strace",
        "AfFqvxyYCcdhirtTVDkzZwna:b:e:E:I:o:O:p:P:s:S:u:X:U:",
        "follow-forks output= trace= quiet? seccomp-bpf",
        0,
        &[KeepsInput],
    ),
    wrapper(
        "ltrace",
        "bcCfhiLrStTVa:A:D:e:F:l:n:o:p:s:u:w:x:X:",
        "output= library= config= where= indent= align= no-signals demangle",
        0,
        &[KeepsInput],
    ),
    wrapper(
        "valgrind",
        "qvd",
        "tool= leak-check? track-origins? quiet verbose log-file? error-exitcode? show-leak-kinds? num-callers? suppressions? trace-children? gen-suppressions? xml? xml-file?",
        0,
        &[KeepsInput],
    ),
    wrapper(
        "perf/stat perf/record perf/trace",
        "e:adgr:o:F:p:vx:",
        "event= output= repeat= call-graph= verbose",
        0,
        &[KeepsInput],
    ),
    wrapper(
        "hyperfine",
        "w:r:m:M:s:p:c:C:S:iN",
        "warmup= runs= min-runs= max-runs= show-output ignore-failure style= prepare= setup= conclude= cleanup= shell= export-json= export-markdown= export-csv= parameter-list=",
        0,
        &[Joins],
    ),
    wrapper(
        "flock",
        "sexnuow:E:Fv",
        "shared exclusive nonblock unlock close no-fork timeout= wait= conflict-exit-code= verbose",
        1,
        &[KeepsInput],
    ),
    wrapper("chroot", "", "groups= userspec= skip-chdir", 1, &[Elevates, KeepsInput]),
    wrapper(
        "unshare",
        "mupinUrcCTfR:w:S:G:",
        "mount? uts? ipc? net? pid? user? cgroup? time? fork map-root-user map-current-user mount-proc? root= wd= setuid= setgid= propagation= kill-child? keep-caps",
        0,
        &[Elevates, KeepsInput],
    ),
    wrapper(
        "nsenter",
        "at:mupinUCTr?w?FZS:G:",
        "all target= mount? uts? ipc? net? pid? user? cgroup? root? wd? no-fork setuid= setgid= preserve-credentials",
        0,
        &[Elevates, KeepsInput],
    ),
    wrapper(
        "setpriv",
        "",
        "no-new-privs reuid= regid= clear-groups init-groups keep-groups groups= inh-caps= bounding-set= ambient-caps= securebits= reset-env pdeathsig=",
        0,
        &[Elevates, KeepsInput],
    ),
    wrapper("capsh", "", "", 0, &[Elevates, KeepsInput]),
    wrapper(
        "bwrap",
        "",
        "unshare-all unshare-net unshare-pid share-net die-with-parent new-session",
        0,
        &[Elevates, KeepsInput, AfterDashes],
    ),
    wrapper(
        "xargs gxargs",
        "0rtpxoi?I:n:P:L:s:d:E:e?l?a:R:S:J:",
        "null no-run-if-empty verbose interactive exit open-tty replace? max-args= max-procs= max-lines? max-chars= delimiter= eof? arg-file= process-slot-var= show-limits",
        0,
        &[Adds],
    ),
    wrapper(
        "parallel",
        "j:kXN:n:I:0qvtu",
        "jobs= keep-order null dry-run verbose halt= bar progress will-cite lb line-buffer tag timeout= retries= colsep= max-args= delay= results= joblog= no-notice eta quote ungroup",
        0,
        &[Joins, Adds],
    ),
    wrapper(
        "watch",
        "bcdegn:prtwxCq:",
        "beep color differences? errexit chgexit interval= precise no-rerun no-title no-wrap exec equexit=",
        0,
        &[Joins],
    ),
    wrapper("entr", "acdnprsz", "", 0, &[Adds]),
    wrapper("busybox toybox", "", "", 0, &[KeepsInput]),
    wrapper("script/-c", "", "", 0, &[Joins]),
    wrapper("ssh", "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:", "", 1, &[Joins, Elevates]),
    wrapper(
        "npx bunx pnpx",
        "yqp:c:",
        "yes no quiet package= no-install ignore-existing call=",
        0,
        &[Elevates, KeepsInput],
    ),
    wrapper("uvx pipx/run", "qvp:", "from= with= python= quiet spec=", 0, &[Elevates, KeepsInput]),
    wrapper(
        "npm/exec npm/x pnpm/exec pnpm/dlx yarn/exec yarn/dlx",
        "yc:p:",
        "yes package= silent call=",
        0,
        &[Elevates, KeepsInput],
    ),
    wrapper(
        "uv/run",
        "qvp:m",
        "with= python= extra= group= all-extras dev no-dev frozen locked isolated no-sync quiet active no-project directory= project= package= with-editable= with-requirements=",
        0,
        &[KeepsInput],
    ),
    wrapper(
        "poetry/run pipenv/run pdm/run hatch/run rye/run conda/run bundle/exec asdf/exec rbenv/exec pyenv/exec devbox/run rtx/exec",
        "n:p:",
        "no-capture-output live-stream name= prefix=",
        0,
        &[KeepsInput],
    ),
    wrapper("mise/exec mise/x direnv/exec", "", "", 0, &[KeepsInput, AfterDashes]),
    wrapper(
        "docker/exec podman/exec",
        "ditTu:w:e:",
        "detach interactive tty user= workdir= env= env-file= privileged detach-keys=",
        1,
        &[Elevates, KeepsInput],
    ),
    wrapper(
        "kubectl/exec",
        "itc:n:q",
        "stdin tty container= namespace= quiet context=",
        0,
        &[Elevates, KeepsInput, AfterDashes],
    ),
    wrapper("rlwrap faketime dotenv", "af:", "", 0, &[KeepsInput]),
    wrapper("rustup/run", "", "install", 1, &[KeepsInput]),
    wrapper("gosu su-exec setuidgid s6-setuidgid", "", "", 1, &[Elevates, KeepsInput]),
    wrapper("rr/record heaptrack samply/record uftrace/record", "o:nr:", "output=", 0, &[KeepsInput]),
];

/// A subcommand, if it wraps only with that, and how.
type Row = (Option<&'static str>, &'static Wrapper);

/// The table by programs; one that wraps only with a subcommand has several rows.
static ROWS: LazyLock<HashMap<&'static str, Vec<Row>>> = LazyLock::new(|| {
    let mut rows: HashMap<_, Vec<_>> = HashMap::new();
    for wrapper in WRAPPERS {
        for name in wrapper.names.split_whitespace() {
            let (program, subcommand) =
                name.split_once('/').map_or((name, None), |(program, sub)| (program, Some(sub)));
            rows.entry(program).or_default().push((subcommand, wrapper));
        }
    }
    rows
});

/// Whether a program is in the table.
pub(crate) fn is_wrapper(name: &str) -> bool {
    ROWS.get(name).is_some_and(|rows| rows.iter().any(|(subcommand, _)| subcommand.is_none()))
}

/// Whether a wrapper, as it is shown, is there to run something in a place of its own: as somebody else, in a container, in an
/// environment. Whoever allows it means what it runs; of `timeout` and `find` nobody does.
pub(crate) fn is_place(shown: &str) -> bool {
    let mut words = shown.split(' ');
    let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let second = words.next();
    let fits = |(subcommand, wrapper): &Row| match subcommand {
        None => wrapper.has(Elevates),
        Some(subcommand) => second == Some(*subcommand),
    };
    ROWS.get(program).is_some_and(|rows| rows.iter().any(fits))
}

/// Whether a wrapper, as it is shown, takes variables away from what it runs that git relies on: `env -i`, `exec -c`.
pub(crate) fn clears_environment(shown: &str) -> bool {
    let mut words = shown.split(' ');
    let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let has_letter = |word: &str, letter| word.strip_prefix('-').is_some_and(|letters| letters.contains(letter));
    match program {
        "env" | "genv" => words.any(|word| {
            word == "-"
                || word.starts_with("--i")
                || !word.starts_with("--") && has_letter(word, 'i')
                || word.contains("GIT_")
        }),
        "exec" => words.any(|word| has_letter(word, 'c')),
        _ => false,
    }
}

/// Looks through the wrapper that `name` is, if it is one. `fields[0]` is its own word.
pub(crate) fn look_through(name: &str, fields: &[Field]) -> Option<Seen> {
    let second = fields.get(1).map(|field| field.text.as_str());
    let fits = |(subcommand, _): &&(Option<&str>, _)| subcommand.is_none() || *subcommand == second;
    let (subcommand, wrapper) = ROWS.get(name)?.iter().find(fits)?;
    let skip = 1 + usize::from(subcommand.is_some());
    Some(wrapper.seen(name, fields, skip))
}

impl Wrapper {
    fn has(&self, which: Trait) -> bool {
        self.traits.contains(&which)
    }

    fn seen(&self, name: &str, fields: &[Field], skip: usize) -> Seen {
        let mut assignments = Vec::new();
        let mut joins = self.has(Joins);
        let mut own = Own::default();
        let start = self.start((name, fields), skip, &mut assignments, &mut joins, &mut own);
        let at = start.as_ref().map_or(fields.len(), |at| *at).min(fields.len());
        let shown: Vec<&str> = fields[..at].iter().map(|field| field.text.as_str()).collect();
        let mut rest = fields[at..].to_vec();
        let inside = match start {
            Err(Unclear) => Inside::Unknowable,
            Ok(_) if rest.is_empty() => Inside::Nothing,
            // `parallel ::: code`
            Ok(_) if self.has(Adds) && joins && is_list(&rest[0]) => Inside::Unknowable,
            Ok(_) if self.has(Adds) && joins => filled(rest).map_or(Inside::Unknowable, Inside::Code),
            Ok(_) if joins => Inside::Code(rest),
            Ok(_) => {
                if let Some(mark) = &own.stands_for {
                    rest = rest.into_iter().map(|field| replaced(field, &mark.text)).collect();
                }
                if self.has(Adds) && (own.stands_for.is_none() || own.adds) {
                    rest.push(Field { is_added: true, ..Field::unknown("…") });
                }
                Inside::Command(rest)
            }
        };
        let (keeps_input, adds) = (self.has(KeepsInput), self.has(Adds));
        Seen { inside, shown: shown.join(" "), assignments, elevates: self.has(Elevates), keeps_input, adds, own }
    }

    /// Where the command begins.
    fn start(
        &self,
        (program, fields): (&str, &[Field]),
        skip: usize,
        assignments: &mut Vec<(String, String)>,
        joins: &mut bool,
        own: &mut Own,
    ) -> Result<usize, Unclear> {
        let mut at = skip;
        if self.has(AfterDashes) {
            let dashes = fields.iter().position(|field| field.text == "--").ok_or(Unclear)?;
            return if fields[..dashes].iter().any(|field| field.splits) { Err(Unclear) } else { Ok(dashes + 1) };
        }
        while let Some(field) = fields.get(at) {
            if field.may_be_option() || field.splits {
                return Err(Unclear);
            }
            match self.grammar.token(&fields[at..]) {
                Token::Option { name, value, words } => {
                    // Of a cluster (`-iS`) the last letter takes the value.
                    let option = option_of(&field.text, &name);
                    let code = matches!(program, "env" | "genv") && matches!(option, "S" | "split-string");
                    if code
                        || value.is_none() && words == 2
                        || fields[at..].iter().take(words).any(|field| field.splits)
                    {
                        return Err(Unclear);
                    }
                    let whole =
                        value.map(|value| if words == 2 { fields[at + 1].clone() } else { Field::literal(value) });
                    own_option(program, &field.text, &name, whole, own);
                    if own.stands_for.as_ref().is_some_and(|mark| mark.is_open() || mark.text.is_empty()) {
                        return Err(Unclear);
                    }
                    // `watch -x` runs the words as they are.
                    *joins &= !(program == "watch" && matches!(option, "x" | "exec"));
                    at += words;
                }
                Token::Cluster(letters) => {
                    *joins &= !(program == "watch" && letters.contains('x'));
                    at += 1;
                }
                Token::End => {
                    at += 1;
                    break;
                }
                Token::Unknown => return Err(Unclear),
                Token::Operand => break,
            }
        }
        if self.has(Assigns) {
            while let Some((name, value)) = fields.get(at).and_then(|field| field.text.split_once('=')) {
                if !is_name(name) || fields[at].known.is_some_and(|known| known <= name.len()) {
                    return Err(Unclear);
                }
                assignments.push((name.to_string(), value.to_string()));
                at += 1;
            }
        }
        let operands = fields.get(at..at + self.operands).unwrap_or_default();
        if operands.iter().any(|field| field.splits) {
            return Err(Unclear);
        }
        Ok(at + self.operands)
    }
}

/// It cannot be told where the command begins.
struct Unclear;

/// A word in which a line of the input takes the place of `mark`.
fn replaced(field: Field, mark: &str) -> Field {
    match field.text.find(mark) {
        Some(at) => Field {
            known: Some(field.known.map_or(at, |known| known.min(at))),
            splits: true,
            only_wildcards: false,
            is_added: true,
            ..field
        },
        None => field,
    }
}

/// What `parallel` puts an argument in place of, beside numbers in braces.
const PLACES: &[&str] = &["{}", "{.}", "{/}", "{//}", "{/.}", "{+}"];

/// Whether a word of `parallel` says that arguments or files with arguments follow.
fn is_list(field: &Field) -> bool {
    matches!(field.text.as_str(), ":::" | ":::+" | "::::" | "::::+")
}

/// The words that `parallel` gives to a shell, with the argument that it puts into each command as `"$1"`: it quotes it. `None` where it
/// stands within quotes of the command's own, which it may close.
fn filled(words: Vec<Field>) -> Option<Vec<Field>> {
    let end = words.iter().position(is_list).unwrap_or(words.len());
    let (mut filled, mut has_place) = (Vec::new(), false);
    for (at, field) in words.into_iter().enumerate() {
        if at == end && !has_place {
            filled.push(Field::literal("\"$1\""));
            has_place = true;
        }
        let mut text = field.text.clone();
        if at < end {
            for place in PLACES {
                text = text.replace(place, "\"$1\"");
            }
            for number in 1..10 {
                text = text.replace(&format!("{{{number}}}"), "\"$1\"");
            }
        }
        // `{= perl code =}`, `{1/.}`
        let is_other = at < end && (text.contains("{=") || text.contains('{') && text.contains("/."));
        if is_other || text != field.text && field.text.contains(['\'', '"', '`', '\\']) {
            return None;
        }
        has_place |= text != field.text;
        filled.push(Field { text, ..field });
    }
    if !has_place {
        filled.push(Field::literal("\"$1\""));
    }
    Some(filled)
}
