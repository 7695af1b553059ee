//! Which programs change nothing, decided by their arguments; and which of the others' arguments are paths.
//!
//! No program is harmless by its name: each row lists the options that are known to be, and those that write, run or fetch. An
//! option that is in neither list makes the effect unknown.

use crate::expand::Field;
use crate::judged::{Judged, host};
use crate::options::{Grammar, Token};
use crate::reading::Effect;
use crate::{arguments, git, special};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// What the operands of a program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Texts.
    Texts,
    /// Files and folders that it reads.
    Reads,
    /// A pattern or program text first, then files that it reads.
    PatternThenReads,
    /// Files that it writes.
    Writes,
    /// Files that it reads, and where it puts them last.
    ReadsThenWrite,
    /// A file that it reads, then one that it writes.
    ReadThenWrite,
    /// A mode or owner first, then files that it changes.
    TextThenWrites,
    /// Hosts, or addresses with hosts in them.
    Hosts,
    /// There may be none: an operand changes something.
    Never,
}
use Operands::{Hosts, Never, PatternThenReads, ReadThenWrite, Reads, ReadsThenWrite, TextThenWrites, Texts, Writes};

/// A row of the table.
struct Program {
    names: &'static str,
    /// Options that change nothing.
    harmless: Grammar,
    /// Options that write, run or fetch. Their values are paths that are written.
    acts: Grammar,
    operands: Operands,
    effect: Effect,
}

const fn quiet(names: &'static str, short: &'static str, long: &'static str, operands: Operands) -> Program {
    let none = Grammar { short: "", long: "" };
    Program { names, harmless: Grammar { short, long }, acts: none, operands, effect: Effect::ChangesNothing }
}

const fn mixed(
    names: &'static str,
    short: &'static str,
    long: &'static str,
    acts: (&'static str, &'static str),
    operands: Operands,
) -> Program {
    let acts = Grammar { short: acts.0, long: acts.1 };
    Program { names, harmless: Grammar { short, long }, acts, operands, effect: Effect::ChangesNothing }
}

const fn acting(names: &'static str, short: &'static str, long: &'static str, operands: Operands) -> Program {
    let none = Grammar { short: "", long: "" };
    Program { names, harmless: Grammar { short, long }, acts: none, operands, effect: Effect::Changes }
}

/// The table.
const PROGRAMS: &[Program] = &[
    quiet(": true false echo", "", "", Texts),
    quiet("break continue exit return shift caller times wait", "nf", "", Texts),
    mixed("printf", "", "", ("v:", ""), Texts),
    quiet("test [", "", "", Texts),
    quiet("pwd", "LP", "logical physical", Texts),
    quiet("cd pushd popd", "LPe@n", "", Texts),
    quiet(
        "dirs type which whereis",
        "aplvctPfbmsu",
        "all skip-alias skip-dot skip-tilde skip-functions show-dot show-tilde tty-only read-alias",
        Texts,
    ),
    quiet("getopts", "", "", Texts),
    quiet(
        "cat tac rev",
        "AbeEnstTuvrs:",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting before regex separator=",
        Reads,
    ),
    quiet(
        "nl",
        "b:d:f:h:i:l:n:ps:v:w:",
        "body-numbering= header-numbering= footer-numbering= line-increment= join-blank-lines= number-format= no-renumber number-separator= starting-line-number= number-width= section-delimiter=",
        Reads,
    ),
    quiet(
        "head tail",
        "c:n:qvzfFs:0123456789",
        "bytes= lines= quiet silent verbose zero-terminated follow? pid= retry sleep-interval= max-unchanged-stats=",
        Reads,
    ),
    quiet("wc", "cmlLw", "bytes chars lines max-line-length words files0-from= total=", Reads),
    quiet(
        "ls dir vdir",
        "aAbBcCdDfFgGhHiI:klLmnNopqQrRsStT:uUvw:xXZ1@OeW",
        "all almost-all author escape block-size= ignore-backups color? colour? directory dired classify? file-type format= full-time group-directories-first no-group human-readable si dereference-command-line dereference-command-line-symlink-to-dir hide= hyperlink? indicator-style= inode ignore= kibibytes dereference numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style= reverse recursive size sort= time= time-style= tabsize= width= context zero",
        Reads,
    ),
    quiet(
        "eza exa lsd",
        "1GxaRTldrIsL:hHibBgmSUuFfDt:@",
        "all long tree level= git icons? grid oneline recurse reverse sort= ignore-glob= git-ignore group-directories-first header color? colour? time= no-user no-time no-permissions",
        Reads,
    ),
    mixed(
        "tree",
        "adlfxL:P:I:nNqpsughDFvtcUrCASXJi",
        "gitignore noreport filelimit= charset= prune info matchdirs ignore-case si du inodes device sort? dirsfirst filesfirst timefmt= metafirst",
        ("o:R", ""),
        Reads,
    ),
    quiet(
        "grep egrep fgrep zgrep rgrep",
        "EFGPe:f:iyvwxcLlm:oqsbHhnTZuUzA:B:C:ad:D:IrR0123456789",
        "extended-regexp fixed-strings basic-regexp perl-regexp regexp= file= ignore-case no-ignore-case invert-match word-regexp line-regexp count color? colour? files-without-match files-with-matches max-count= only-matching quiet silent no-messages byte-offset with-filename no-filename label= line-number initial-tab null after-context= before-context= context= text binary-files= devices= directories= exclude= exclude-from= exclude-dir= include= recursive dereference-recursive line-buffered binary unix-byte-offsets null-data",
        PatternThenReads,
    ),
    mixed(
        "rg ripgrep",
        "A:B:C:aE:e:f:FHhiIj:lLm:M:nNoPpqr:sSt:T:uUvVwxg:0cd:.",
        "after-context= before-context= context= text encoding= regexp= file= fixed-strings with-filename no-filename ignore-case threads= files-with-matches files-without-match follow max-count= max-columns= line-number no-line-number only-matching pcre2 pretty quiet replace= case-sensitive smart-case type= type-not= unrestricted invert-match word-regexp line-regexp glob= iglob= null count count-matches max-depth= hidden no-hidden no-ignore no-ignore-vcs no-ignore-parent no-ignore-global no-ignore-dot ignore-file= color= colors= column no-column heading no-heading json files sort= sortr= stats multiline multiline-dotall no-messages trim type-list crlf passthru vimgrep debug trace max-filesize= no-config one-file-system engine= binary version block-buffered line-buffered path-separator= context-separator= field-match-separator= include-zero byte-offset no-require-git",
        ("z", "pre= pre-glob= search-zip hostname-bin= generate= hyperlink-format="),
        PatternThenReads,
    ),
    mixed(
        "ag ack ugrep ug",
        "acDfgGilLnoQsSuUvwzA:B:C:m:",
        "nocolor color nogroup group nobreak noheading ignore= hidden depth= literal stats count",
        ("", "pager= files-from= ackrc= env filter= view? save-config? config? hexdump?"),
        PatternThenReads,
    ),
    mixed(
        "fd fdfind",
        "HIsipagLut:e:E:d:c:j:0FS:l1q",
        "hidden no-ignore case-sensitive ignore-case full-path absolute-path glob fixed-strings follow type= extension= exclude= max-depth= min-depth= exact-depth= color= threads= print0 size= changed-within= changed-before= list-details max-results= quiet unrestricted regex no-ignore-vcs prune one-file-system strip-cwd-prefix? and= owner= base-directory= path-separator= search-path=",
        ("xX", "exec= exec-batch="),
        PatternThenReads,
    ),
    mixed(
        "sort",
        "bdfgiMhnRrVcCk:mst:uzS:",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort human-numeric-sort numeric-sort random-sort reverse sort= version-sort check? key= merge stable field-separator= unique zero-terminated buffer-size= parallel= debug files0-from= batch-size= random-source=",
        ("o:T:", "output= compress-program= temporary-directory="),
        Reads,
    ),
    quiet(
        "uniq",
        "cdDf:is:uw:z",
        "count repeated all-repeated? skip-fields= group? ignore-case skip-chars= unique check-chars= zero-terminated",
        ReadThenWrite,
    ),
    quiet(
        "cut",
        "b:c:d:f:nsz",
        "bytes= characters= delimiter= fields= complement only-delimited output-delimiter= zero-terminated",
        Reads,
    ),
    quiet("tr", "cCdst", "complement delete squeeze-repeats truncate-set1", Texts),
    quiet(
        "comm join paste fold fmt expand unexpand column pr tsort",
        "123a:e:i1:2:j:o:t:v:d:szb:w:cgpuns:xLN:R:H:O:E:W:T:l:h:",
        "check-order nocheck-order output-delimiter= total zero-terminated delimiters= serial bytes spaces width= tabs= initial first-only all header= separator= table table-columns= output-separator= json",
        Reads,
    ),
    mixed(
        "diff sdiff diff3",
        "qscC:uU:eynpF:lbBwEZdai:I:TtrNx:X:S:W:DH0123456789",
        "brief report-identical-files context? unified? ed rcs side-by-side show-c-function show-function-line= label= recursive new-file ignore-case ignore-space-change ignore-all-space ignore-blank-lines ignore-trailing-space ignore-tab-expansion ignore-matching-lines= text strip-trailing-cr ifdef= color? width= suppress-common-lines exclude= exclude-from= minimal speed-large-files normal no-dereference left-column tabsize= expand-tabs initial-tab palette= horizon-lines= starting-file=",
        ("o:", "output= diff-program="),
        Reads,
    ),
    quiet("cmp", "bi:ln:s", "print-bytes ignore-initial= verbose bytes= quiet silent", Reads),
    mixed(
        "file",
        "bcdEe:f:F:hiIkLlNnprsSvzZ0m:P:",
        "brief checking-printout exclude= files-from= separator= no-dereference mime mime-type mime-encoding keep-going dereference list no-buffer no-pad raw special-files extension version uncompress magic-file= print0",
        ("C", "compile"),
        Reads,
    ),
    quiet("stat", "Lfc:t", "dereference file-system cached= format= printf= terse", Reads),
    quiet(
        "du df",
        "0aAB:bcDd:hHkLlmPSst:xX:T:ei",
        "null all apparent-size block-size= bytes total dereference-args max-depth= human-readable inodes dereference no-dereference separate-dirs summarize threshold= time? time-style= exclude= exclude-from= one-file-system si local output? portability sync print-type type= exclude-type= files0-from=",
        Reads,
    ),
    quiet("basename dirname", "as:z", "multiple suffix= zero", Texts),
    quiet(
        "realpath readlink",
        "emLPqszfnv",
        "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero relative-to= relative-base= canonicalize no-newline silent verbose",
        Texts,
    ),
    mixed(
        "date",
        "d:f:I?r:Ruj",
        "date= file= iso-8601? reference= rfc-email rfc-2822 rfc-3339= utc universal debug resolution",
        ("s:", "set="),
        Texts,
    ),
    mixed(
        "hostname",
        "AadfiIsy",
        "all-fqdns alias domain fqdn ip-address all-ip-addresses long short",
        ("bF:", "boot file="),
        Never,
    ),
    quiet(
        "whoami id groups uname arch nproc uptime w who users logname tty locale getconf free lscpu lsblk vmstat",
        "aGgnruzsrvmpioPlbkhtcfbwdHTS",
        "all user group groups real name zero kernel-name nodename kernel-release kernel-version machine processor hardware-platform operating-system ignore= pretty since human json output= si total wide",
        Texts,
    ),
    quiet(
        "ps pgrep pidof",
        "AaCdefFgGHjlLMNopqsStTuUVwxyZc:C:g:G:o:p:s:t:u:U:P:rnxvi",
        "pid= ppid= user= sort= format= headers no-headers forest cols= width= full list-name list-full newest oldest exact count",
        Texts,
    ),
    quiet("printenv", "0", "null", Texts),
    quiet(
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum md5 b3sum",
        "bctzwa:l:rsqp",
        "binary check tag text zero ignore-missing quiet status strict warn algorithm= length= untagged raw",
        Reads,
    ),
    quiet(
        "od hexdump hd strings",
        "A:j:N:S:t:v:w:abcdefhilosxCn:L",
        "address-radix= skip-bytes= read-bytes= strings= format= output-duplicates width= endian= traditional all bytes= radix= encoding= print-file-name canonical",
        Reads,
    ),
    mixed("xxd", "abc:CdeEg:hil:n:o:psuv", "", ("r", ""), ReadThenWrite),
    mixed(
        "base64 base32 basenc",
        "diDw:",
        "decode ignore-garbage wrap= base64 base32 base16 base64url",
        ("o:", "output="),
        Reads,
    ),
    quiet(
        "seq sleep expr factor numfmt yes",
        "f:s:wd:z",
        "format= separator= equal-width field= from= to= suffix= grouping header? invalid= padding= round= to-unit= from-unit= delimiter= debug zero-terminated",
        Texts,
    ),
    mixed(
        "jq",
        "nrjaCMSsceRLf:ez",
        "null-input raw-output join-output ascii-output color-output monochrome-output sort-keys slurp compact-output exit-status raw-input tab indent= unbuffered stream seq from-file= ascii raw-output0",
        ("", ""),
        PatternThenReads,
    ),
    quiet("cloc tokei scc", "", "json", Reads),
    quiet(
        "ldd nm readelf size",
        "aCgDdhlnSsuvAtrW",
        "all demangle dynamic defined-only undefined-only headers symbols sections program-headers wide",
        Reads,
    ),
    quiet("zcat gzcat bzcat xzcat zstdcat", "fkqv", "", Reads),
    quiet("tput clear", "T:", "", Texts),
    // What changes something, for its paths and hosts.
    acting(
        "rm rmdir unlink shred",
        "dfiIrRvpzun:s:x",
        "force interactive? one-file-system no-preserve-root preserve-root? recursive dir verbose parents ignore-fail-on-non-empty iterations= size= exact zero remove? random-source=",
        Writes,
    ),
    acting(
        "mkdir touch mkfifo",
        "m:pvZacd:fhr:t:",
        "mode= parents verbose context? no-create date= no-dereference reference= time=",
        Writes,
    ),
    acting("tee sponge", "aip", "append ignore-interrupts output-error?", Writes),
    acting("truncate", "cor:s:", "no-create io-blocks reference= size=", Writes),
    acting(
        "chmod chown chgrp",
        "cfvRHLPhrwxXstugoa",
        "changes silent quiet verbose recursive reference= no-dereference dereference no-preserve-root preserve-root from=",
        TextThenWrites,
    ),
    acting(
        "cp mv ln install",
        "abdfHilLnpPrRst:uvxZsTS:Dg:m:o:cCzqhWAXOe:F",
        "strip-program= archive attributes-only backup? copy-contents force interactive link dereference no-clobber no-dereference preserve? no-preserve= parents recursive reflink? remove-destination sparse= strip-trailing-slashes symbolic-link suffix= target-directory= no-target-directory update? verbose one-file-system symbolic relative logical physical directory mode= owner= group= strip compare compress delete exclude= include= progress dry-run rsh= partial stats",
        ReadsThenWrite,
    ),
    acting(
        "ping ping6 nslookup host dig whois traceroute nc ncat netcat telnet mtr ftp",
        "c:i:w:W:t:s:I:p:nq46vuzlkN",
        "",
        Hosts,
    ),
    acting("kill killall pkill renice", "s:n:lfxu:qe9", "signal= exact full", Texts),
];

/// Options whose value is a file that is read.
const FILE_OPTIONS: &str = "file from-file reference files0-from files-from exclude-from ignore-file random-source starting-file magic-file ignore-revs-file";

/// Programs whose only harmless use is to say their version.
const VERSIONED: &str = "\
    node npm pnpm yarn bun deno python python3 pip pip3 uv cargo rustc rustup go java javac ruby gem perl php \
    gcc g++ clang cc make cmake docker kubectl bash zsh sh rg git gh jq tsc dotnet swift mvn gradle psql sqlite3 \
    curl wget tar ssh vim nvim tmux terraform helm ffmpeg rustfmt mypy ruff pytest black eslint prettier lua ghc \
    scala kotlin julia R openssl";

/// Programs that do not run their arguments, though these may be words like `install` and `test`.
const ORDINARY: &str = "\
    npm pnpm yarn bun deno pip pip3 uv cargo rustc rustup go javac gem gcc g++ clang cc make gmake cmake ninja \
    docker docker-compose podman kubectl helm gh glab tsc dotnet swift mvn gradle brew apt apt-get dnf yum \
    pacman apk snap conda mamba poetry pipenv pdm hatch bundle rake composer mix cabal stack opam dune bazel \
    buck2 pytest tox nox mypy ruff black eslint prettier jest vitest tar zip unzip gzip gunzip bzip2 xz zstd \
    curl wget psql mysql sqlite3 redis-cli systemctl service journalctl launchctl mount umount dd mkfs fdisk \
    patch openssl gpg ssh-keygen ssh-add terraform ansible vagrant just task nix nix-build nix-store svn hg jj \
    man info help unset set export read mapfile readarray declare typeset local readonly let umask ulimit shopt \
    bind complete compgen compopt enable history fc fg bg disown suspend logout jobs hash alias unalias trap \
    eval source . command crontab at batch dmesg ip ifconfig python python3 node perl ruby php java awk sed find \
    git vim vi nano emacs less more pbcopy xclip open xdg-open screen tmux code";

/// Programs that take commands in options, in files of settings given as words, or behind a subcommand of their own.
const TAKE_COMMANDS: &str = "\
    tar bsdtar rsync ssh scp sftp tmux screen man less more zip duckdb watchexec nodemon gum fzf sk xterm gnome-terminal konsole expect gdb lldb make gmake cmake ninja just task \
    nix-shell vim vi nvim emacs sqlite3 psql mysql ftp telnet nc ncat socat mail mutt ansible vagrant docker docker-compose podman podman-compose nerdctl kubectl openssl ip \
    dpkg rpm systemd-run batch hyperfine inotifywait fswatch lftp vipe nmap tcpdump logrotate run-parts start-stop-daemon xvfb-run";

/// Whether the arguments of a program may hold commands that it runs.
pub(crate) fn takes_commands(name: &str) -> bool {
    lists(TAKE_COMMANDS, name)
}

/// Programs outside of the tables to which their input is data, never orders.
const TAKE_DATA: &str = "git curl wget gh glab patch openssl gpg gpg2 docker podman kubectl jq yq xclip pbcopy crontab";

/// Programs whose arguments are texts for people, too.
const TAKE_MESSAGES: &str = "git gh glab hub svn hg jj bzr cvs mail mailx mutt notify-send";

/// Whether the words of a program may be texts for people: a word in them names nothing.
pub(crate) fn takes_messages(name: &str) -> bool {
    lists(TAKE_MESSAGES, name)
}

/// Whether what a program reads from its input is data.
pub(crate) fn takes_data(name: &str) -> bool {
    row(name).is_some() || lists(TAKE_DATA, name)
}

/// Whether a program stands in one of the tables.
pub(crate) fn is_known(name: &str) -> bool {
    row(name).is_some() || NAMES.contains(name) || name == "git" || special::is_special(name)
}

/// Whether a list of names, with blanks between, has this one.
fn lists(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|known| known == name)
}

fn row(name: &str) -> Option<&'static Program> {
    ROWS.get(name).copied()
}

/// The table by names.
static ROWS: LazyLock<HashMap<&'static str, &'static Program>> = LazyLock::new(|| {
    let rows = PROGRAMS.iter().flat_map(|program| program.names.split(' ').map(move |name| (name, program)));
    rows.collect()
});

/// Every name that stands in a list.
static NAMES: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| [ORDINARY, VERSIONED, TAKE_COMMANDS].iter().flat_map(|list| list.split_whitespace()).collect());

/// What the program `name` does with `arguments`.
pub(crate) fn judge(name: &str, arguments: &[Field]) -> Judged {
    let version = arguments.len() == 1
        && matches!(arguments[0].text.as_str(), "--version" | "-V" | "-v" | "version")
        && !arguments[0].is_open();
    if version && lists(VERSIONED, name) && (arguments[0].text != "version" || name == "go") {
        return Judged::of(Effect::ChangesNothing);
    }
    if name == "git" {
        return git::judge(arguments);
    }
    if let Some(judged) = special::judge(name, arguments) {
        return judged;
    }
    if let Some(program) = row(name) {
        return program.judge(name, arguments);
    }
    let mut judged = Judged::of(Effect::Unknown);
    arguments::judge(name, arguments, &mut judged);
    judged
}

/// The files and folders among the arguments of a program in this table.
pub(crate) fn files<'f>(name: &str, arguments: &'f [Field]) -> Vec<&'f Field> {
    let Some(program) = row(name) else { return Vec::new() };
    let (operands, pattern) = program.scan(name, arguments, &mut Judged::of(program.effect));
    let skip = usize::from(program.operands == PatternThenReads && !pattern);
    operands.into_iter().skip(skip).collect()
}

impl Program {
    fn judge(&self, name: &str, arguments: &[Field]) -> Judged {
        let mut judged = Judged::of(self.effect);
        let (operands, pattern) = self.scan(name, arguments, &mut judged);
        self.operands(&operands, pattern, &mut judged);
        // It sets the clock; what stands behind a plus is how it prints.
        if name == "date" {
            operands.iter().filter(|field| !field.text.starts_with('+')).for_each(|field| judged.acts(&field.text));
        }
        if name == "install" {
            let runs = arguments.iter().filter(|field| field.text.starts_with("--strip-p"));
            judged.risky.extend(runs.map(|field| field.text.clone()));
        }
        if matches!(name, "mv" | "ln") {
            // By its new name it is changed past a rule about the old one; what is moved is gone where it was.
            judged.writes.extend(judged.reads.clone());
        }
        judged
    }

    /// Takes the options; the operands, and whether an option stood for the first of them.
    fn scan<'f>(&self, name: &str, arguments: &'f [Field], judged: &mut Judged) -> (Vec<&'f Field>, bool) {
        let free = matches!(name, ":" | "true" | "false" | "echo" | "test" | "[" | "expr" | "yes");
        let mut operands = Vec::new();
        let mut pattern = false;
        let mut at = 0;
        while let Some(field) = arguments.get(at) {
            // An option may come out of what is not known; only a program without any that acts does not mind.
            if field.may_be_option() && !free && (!self.acts.short.is_empty() || !self.acts.long.is_empty()) {
                judged.may_act(&field.text);
            }
            at += if free {
                operands.push(field);
                1
            } else {
                self.argument(arguments, at, judged, &mut operands, &mut pattern)
            };
        }
        (operands, pattern)
    }

    /// Takes the argument at `at`; how many words it is.
    fn argument<'f>(
        &self,
        arguments: &'f [Field],
        at: usize,
        judged: &mut Judged,
        operands: &mut Vec<&'f Field>,
        pattern: &mut bool,
    ) -> usize {
        let field = &arguments[at];
        match self.acts.token(&arguments[at..]) {
            Token::Option { value, words, .. } => {
                judged.acts(&field.text);
                if value.is_some() {
                    let written =
                        if words == 2 { arguments[at + 1].clone() } else { Field::literal(value.unwrap_or_default()) };
                    judged.writes.push(written);
                }
                return words;
            }
            Token::Cluster(_) => {
                judged.acts(&field.text);
                return 1;
            }
            Token::End | Token::Operand | Token::Unknown => {}
        }
        match self.harmless.token(&arguments[at..]) {
            Token::Option { name, words, value } => {
                *pattern |= lists("e f regexp file files from-file type-list", &name);
                let value =
                    value.map(|value| if words == 2 { arguments[at + 1].clone() } else { Field::literal(value) });
                // Of a cluster the last letter takes the value.
                let letter = if field.text.starts_with("--") { 0 } else { name.len().saturating_sub(1) };
                self.value(name.get(letter..).unwrap_or(&name), value, judged);
                words.min(arguments.len() - at)
            }
            Token::Cluster(_) => 1,
            Token::End => {
                operands.extend(&arguments[at + 1..]);
                arguments.len() - at
            }
            Token::Operand => {
                operands.push(field);
                1
            }
            Token::Unknown => {
                // A cluster of both kinds: `sort -ro file`.
                let acts = |(_, letter): &(usize, char)| *letter != ':' && self.acts.short.contains(*letter);
                let acting = field.text.char_indices().skip(1).find(acts).filter(|_| !field.text.starts_with("--"));
                if let Some((place, letter)) = acting {
                    judged.acts(&field.text);
                    let glued = &field.text[place + letter.len_utf8()..];
                    let takes_next = glued.is_empty() && self.acts.short.contains(&format!("{letter}:"));
                    let next = arguments.get(at + 1).filter(|_| takes_next).cloned();
                    judged
                        .writes
                        .extend(next.or_else(|| (!glued.is_empty()).then(|| crate::expand::tail(field, glued))));
                    return if takes_next { 2 } else { 1 };
                } else {
                    judged.unsure();
                    if self.effect == Effect::ChangesNothing {
                        judged.risky.push(field.text.clone());
                    }
                }
                1
            }
        }
    }

    /// Takes the value of a harmless option, where it is a path.
    fn value(&self, name: &str, value: Option<Field>, judged: &mut Judged) {
        let file = lists(FILE_OPTIONS, name)
            || (name == "f" && (self.operands == PatternThenReads || self.names == "date" || self.names == "file"))
            || (name == "m" && self.names == "file");
        let target = matches!(name, "t" | "target-directory") && self.operands == ReadsThenWrite;
        judged.reads.extend(value.clone().filter(|_| file));
        judged.writes.extend(value.filter(|_| target));
    }

    fn operands(&self, operands: &[&Field], pattern: bool, judged: &mut Judged) {
        let all = || operands.iter().map(|field| (*field).clone());
        match self.operands {
            Texts => {}
            Never if operands.is_empty() => {}
            Never => judged.acts(&operands[0].text),
            Reads => judged.reads.extend(all()),
            PatternThenReads => judged.reads.extend(all().skip(usize::from(!pattern))),
            Writes => judged.writes.extend(all()),
            TextThenWrites => judged.writes.extend(all().skip(1)),
            ReadsThenWrite => {
                let elsewhere = !judged.writes.is_empty();
                let last = if elsewhere { None } else { operands.last() };
                judged.reads.extend(all().take(operands.len() - usize::from(last.is_some())));
                judged.writes.extend(last.map(|field| (*field).clone()));
            }
            ReadThenWrite => {
                judged.reads.extend(all().take(1));
                if operands.len() > 1 || operands.iter().any(|field| field.splits) {
                    judged.acts(&operands[operands.len() - 1].text);
                    judged.writes.extend(all().skip(1));
                }
            }
            Hosts => judged.hosts.extend(operands.iter().filter_map(|field| host(&field.text))),
        }
    }
}
