//! Programs that are in no table of what is harmless, by what their options do: which of them run something, and which name files.
//!
//! A rule that allows a program does not allow these options unless it names them (`Part::risky`), and rules for paths see
//! these files. What GTFOBins knows of a program stands here, or in the grammars of [`crate::special`] and [`crate::git`].

use crate::environment::steers;
use crate::expand::{Field, tail};
use crate::judged::{Judged, host};

/// What the words of a program are that are no options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Texts.
    Texts,
    /// Files that it reads.
    Reads,
    /// Files that it writes.
    Writes,
    /// Files that it changes, or replaces.
    Changes,
    /// A file that it writes, then files that it reads.
    WritesThenReads,
    /// Files that it reads, and where it puts them last.
    ReadsThenWrites,
    /// A script that it runs, then texts.
    Script,
}
use Operands::{Changes, Reads, ReadsThenWrites, Script, Texts, Writes, WritesThenReads};

/// A row. Options stand with their dashes and blanks between; one that is glued to its value is found, too.
struct Row {
    names: &'static str,
    /// Options that run or load something, or take orders from elsewhere.
    runs: &'static str,
    /// Options whose value is a path that is written.
    writes: &'static str,
    /// Options whose value is a path that is read.
    reads: &'static str,
    /// Other options with a value, so that it is no operand.
    values: &'static str,
    operands: Operands,
}

const fn row(
    names: &'static str,
    runs: &'static str,
    writes: &'static str,
    reads: &'static str,
    values: &'static str,
    operands: Operands,
) -> Row {
    Row { names, runs, writes, reads, values, operands }
}

/// The table.
const ROWS: &[Row] = &[
    row(
        "tar bsdtar gtar star",
        "-I --use-compress-program --to-command --checkpoint-action --rsh-command --rmt-command -F --info-script --new-volume-script",
        "-C --directory -g --listed-incremental --index-file --one-top-level",
        "-T --files-from -X --exclude-from",
        "-f --file -b --blocking-factor --strip-components --exclude --transform --xform --owner --group --mode --mtime -H --format --newer -N --warning --suffix --pax-option -V --label --sort --level -L --tape-length -K --starting-file --checkpoint",
        Reads,
    ),
    row(
        "cpio pax",
        "--rsh-command --rmt-command",
        "-D --directory -O --file -F",
        "-I -E --pattern-file",
        "-H --format -C -R --owner -M -s",
        Texts,
    ),
    row(
        "zip",
        "-TT --unzip-command",
        "-O --output-file -b --temp-path -lf --logfile-path",
        "-i@ -x@",
        "-i -x -t -tt -n -P -s -Z --exclude --include",
        WritesThenReads,
    ),
    row("shuf", "", "-o --output", "--random-source", "-i --input-range -n --head-count", Reads),
    row("unzip", "", "-d", "", "-P -x", Reads),
    row("7z 7za 7zr", "", "-o -w", "", "-p -t -m -x -i", Reads),
    row(
        "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma zstd unzstd compress uncompress lz4 pigz",
        "",
        "-o --output-dir-flat",
        "--files --files0 -D",
        "-S --suffix -T --threads -M --memlimit -F --format -b",
        Changes,
    ),
    row(
        "rsync",
        "-e --rsh --rsync-path --daemon --config -M --remote-option",
        "--log-file --write-batch --only-write-batch --backup-dir --partial-dir --temp-dir -T",
        "--files-from --exclude-from --include-from --password-file --read-batch --compare-dest --copy-dest --link-dest",
        "-f --filter --exclude --include --bwlimit --chmod --chown --port --timeout --max-size --min-size -B --block-size --out-format --info --debug --modify-window --skip-compress --suffix",
        ReadsThenWrites,
    ),
    row("scp", "-S -o -F -D -X", "", "-i", "-c -J -l -P", ReadsThenWrites),
    row("sftp", "-S -o -F -D -b -s", "", "-i", "-B -c -J -l -P -R -X", Texts),
    row("ssh-keygen ssh-add ssh-copy-id", "-D -s -o", "-f", "-i", "-t -b -C -N -P", Texts),
    row(
        "curl",
        "-K --config --egd-file --engine --netrc-file --unix-socket --abstract-unix-socket",
        "-o --output --expand-output --ssl-sessions -c --cookie-jar -D --dump-header --trace --trace-ascii --output-dir --hsts --alt-svc --etag-save --libcurl --stderr",
        "-T --upload-file -b --cookie --cert -E --cacert --capath --key --etag-compare -F-file --url-query-file",
        "-H --header -d --data --data-ascii --data-binary --data-raw --data-urlencode --json -A --user-agent -u --user -X --request -e --referer -m --max-time -x --proxy -U --proxy-user -w --write-out -F --form --form-string --connect-timeout --retry --retry-delay --resolve --interface --limit-rate -r --range -C --continue-at --url -Y -y -z --proto --max-filesize --connect-to --ciphers --tls-max --url-query",
        Texts,
    ),
    row(
        "wget",
        "--use-askpass -e --execute --config --rejected-log-run",
        "-O --output-document -o --output-file -a --append-output -P --directory-prefix --save-cookies --hsts-file --warc-file --rejected-log",
        "-i --input-file --post-file --body-file --load-cookies --ca-certificate --certificate --private-key",
        "-U --user-agent --header --user --password -t --tries -T --timeout -w --wait -A --accept -R --reject -D --domains -l --level -Q --quota -X -I --referer --method --body-data --post-data --limit-rate",
        Texts,
    ),
    row(
        "aria2c axel lftp",
        "--on-download-complete --on-download-start --on-download-error --on-download-stop --on-bt-download-complete --hook -e -c -f --conf-path",
        "-d --dir -o --out -l --log --save-session",
        "-i --input-file",
        "-x -s -j -k --header --user-agent",
        Texts,
    ),
    row(
        "yt-dlp youtube-dl",
        "--exec --exec-before-download --downloader --external-downloader --netrc-cmd --plugin-dirs --config-locations --ffmpeg-location",
        "-o --output -P --paths --cache-dir --cookies",
        "-a --batch-file",
        "-f --format",
        Texts,
    ),
    row(
        "split csplit",
        "--filter",
        "-f --prefix",
        "",
        "-a --suffix-length -b --bytes -C --line-bytes -l --lines -n --number -t --separator --additional-suffix --suffix-format",
        ReadsThenWrites,
    ),
    row(
        "patch",
        "",
        "-o --output -r --reject-file -d --directory -B -Y",
        "-i --input",
        "-p --strip -F --fuzz -D -V -z --suffix -g",
        Changes,
    ),
    row(
        "less more most pg",
        "-k --lesskey-file --lesskey-src --lesskey-content",
        "-o -O --log-file --LOG-FILE",
        "-T --tag-file",
        "-p --pattern -b --buffers -h -j --jump-target -P --prompt -t --tag -x --tabs -y -z --window -n -D",
        Reads,
    ),
    row(
        "bat batcat delta",
        "--pager --pager-command",
        "",
        "",
        "-l --language --theme --style -r --line-range -H --tabs --wrap --color --paging --decorations --map-syntax -m",
        Reads,
    ),
    row(
        "man apropos whatis",
        "-P --pager -H --html -T --troff-device -X --gxditview -Z -C --config-file -p --preprocessor -t",
        "",
        "-M --manpath",
        "-L --locale -m --systems -S -s --sections -e --extension -r --prompt -E --encoding",
        Texts,
    ),
    row(
        "vi vim nvim view vimdiff ex rvim gvim",
        "-c --cmd -S -s -u -U --remote-expr --remote-send -l -T",
        "-w -W",
        "-t -q",
        "--servername",
        Changes,
    ),
    row(
        "emacs emacsclient",
        "--eval -eval -e --load -l -f --funcall --execute -L --script -x --init-directory",
        "",
        "--insert",
        "-T --title",
        Changes,
    ),
    row(
        "nano pico ed red joe micro",
        "-s --speller -p -f --rcfile -ignorercfiles",
        "-C --backupdir --operatingdir -o",
        "",
        "-T --tabsize -r --fill",
        Changes,
    ),
    row(
        "go",
        "-exec --exec -toolexec --toolexec -vettool --vettool -overlay --overlay -gccgoflags -modfile --modfile -ldflags --ldflags -gcflags --gcflags -asmflags --asmflags -w generate",
        "-o -coverprofile --coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -outputdir -pkgdir",
        "-C",
        "-run -bench -count -timeout -tags -p -v -cover -covermode -mod -parallel -short",
        Texts,
    ),
    row(
        "cargo",
        "--config -Z -C",
        "--target-dir --out-dir --artifact-dir -o",
        "--manifest-path --lockfile-path --path",
        "-p --package --features -F --bin --example --test --bench --target --profile --message-format --color -j --jobs --exclude --version --tag --branch --rev --git",
        Texts,
    ),
    row(
        "rustc rustdoc",
        "-C --codegen -Z --sysroot --test-runtool --runtool",
        "-o --out-dir --emit --dep-info",
        "-L --extern",
        "--crate-name --crate-type --edition --target --cfg --cap-lints -A -W -D -F",
        Reads,
    ),
    row(
        "gcc g++ clang clang++ cc c++ ld gold lld",
        "-wrapper -fplugin -B -specs -load -Xclang -fuse-ld -dynamic-linker -rpath",
        "-o -MF -dumpdir -save-temps -fprofile-generate",
        "-include -imacros -I -L -isystem -T",
        "-D -U -l -x -O -W -std -MT -MQ -march -mtune",
        Reads,
    ),
    row(
        "make gmake bmake",
        "--eval -E -I --include-dir",
        "-C --directory -o --old-file",
        "-f --file --makefile",
        "-j --jobs -l --load-average -W --what-if",
        Texts,
    ),
    row(
        "cmake ctest ninja meson just task",
        "-P -E --build-run --shell --shell-arg --taskfile -t --toolchain -DCMAKE_C_COMPILER -DCMAKE_CXX_COMPILER -DCMAKE_PROJECT_INCLUDE --overwrite --build-generator",
        "-B --install --prefix -d",
        "-S -f --justfile -C --directory -s",
        "-G -j --parallel --target --config -R -L -E-tests",
        Texts,
    ),
    row(
        "mvn gradle gradlew ant bazel buck2 sbt",
        "-I --init-script -lib --script_path -s --settings --global-settings -javaagent --bazelrc -f --file -logger",
        "-l --log-file --project-cache-dir",
        "-p --project-dir -b --build-file -c",
        "-P -D -x -T --profile",
        Texts,
    ),
    row(
        "npm pnpm yarn bun npx bunx",
        "--script-shell --node-options --userconfig --globalconfig --prefix -C --dir --cwd --git --ignore-scripts=false --shell --editor --require -r --preload --config",
        "--cache --pack-destination",
        "",
        "--tag --registry -w --workspace --filter --otp --access --loglevel",
        Texts,
    ),
    row(
        "node nodejs tsx ts-node deno",
        "-r --require --import --loader --experimental-loader --env-file --env-file-if-exists --inspect --inspect-brk --run --openssl-config --icu-data-dir",
        "--cpu-prof-dir --heap-prof-dir --redirect-warnings --diagnostic-dir --report-directory",
        "",
        "--max-old-space-size --conditions -C --input-type -e -p -pe --eval --print",
        Script,
    ),
    row(
        "python python2 python3 pypy pypy3 ipython",
        "",
        "--pycache-prefix",
        "",
        "-W -X -m -c -Q --check-hash-based-pycs",
        Script,
    ),
    row(
        "perl ruby php lua luajit Rscript R julia tclsh",
        "-d -auto_prepend_file",
        "",
        "",
        "-I -M -m -C -e -E -r",
        Script,
    ),
    row(
        "java jshell kotlin scala groovy",
        "-agentpath -agentlib -javaagent -XX:OnOutOfMemoryError -XX:OnError -Xbootclasspath --patch-module",
        "-Xlog -XX:HeapDumpPath",
        "-jar -cp -classpath --class-path --module-path -p",
        "-D -m --module --add-opens --add-modules",
        Script,
    ),
    row(
        "pip pip2 pip3 uv poetry pdm pipenv conda mamba",
        "--index-url -i --extra-index-url --find-links -f --global-option --config-settings --build-option --no-binary --python --pre-script --installer --editor",
        "-t --target --root --prefix -d --dest -w --wheel-dir --log --cache-dir --report --src -o --output-file",
        "-r --requirement -c --constraint -e --editable",
        "-U --timeout --retries --trusted-host --proxy -n --name",
        Texts,
    ),
    row(
        "pytest py.test tox nox",
        "-p --pdbcls -c --config-file --rootdir --confcutdir -o --override-ini --trace-config -P --import-mode --force-plugin",
        "--junitxml --junit-xml --basetemp --cov-report --report-log --html --pastebin --debug --log-file",
        "--ignore --deselect",
        "-k -m -n --maxfail --durations --tb --cov --timeout --color -W -r",
        Reads,
    ),
    row(
        "jest vitest mocha eslint prettier tsc stylelint webpack vite rollup esbuild babel",
        "-c --config --globalSetup --globalTeardown --setupFiles --setupFilesAfterEnv --runner --testRunner --transform --resolver --reporters --reporter --require -r --plugin --plugins --resolve-plugins-relative-to --parser --rulesdir -f --format --environment --testEnvironment",
        "-o --output-file --outDir --outFile --outfile --outdir --cache-location --cacheDirectory --coverageDirectory",
        "-p --project --rootDir",
        "-t --testNamePattern --max-warnings --ext --rule",
        Reads,
    ),
    row(
        "ruff black isort flake8 mypy pylint rustfmt clang-format gofmt",
        "--load-plugins --plugin --plugins --init-hook --custom-typing-module --config --config-path --config-file --rcfile",
        "--output-file -o --cache-dir --junit-xml",
        "",
        "--select --ignore --line-length -l --target-version",
        Changes,
    ),
    row(
        "docker podman nerdctl docker-compose",
        "-H --host --context --config --privileged -v --volume --mount --device --cap-add --security-opt --pid",
        "--iidfile --cidfile -o --output --metadata-file",
        "--secret --ssh --build-context",
        "--tag --name -p --publish -e --env -w --workdir -l --label --build-arg --target --platform --rm-by",
        Texts,
    ),
    row(
        "kubectl helm oc",
        "--kubeconfig --context --cluster --server -s --as --token --post-renderer --exec-command --kube-context --kube-apiserver",
        "--output-dir -d --destination",
        "-f --filename -k --kustomize --values --from-file --from-env-file",
        "-n --namespace -o --output -l --selector --replicas --timeout --set",
        Texts,
    ),
    row(
        "terraform tofu ansible ansible-playbook vagrant packer",
        "-chdir -plugin-dir -backend-config -var -e --extra-vars -m --module-name -a --args --playbook-dir -M --module-path -i --inventory --private-key --vault-password-file",
        "-out -state -state-out -backup",
        "-var-file -f",
        "-target -parallelism -l --limit",
        Texts,
    ),
    row(
        "psql mysql mariadb sqlite3 mongo mongosh redis-cli clickhouse-client duckdb",
        "-c --command -e --execute -f --file -init --init-command -cmd -v --variable --set --pager --eval --plugin-dir --default-auth --defaults-file --defaults-extra-file --shell --repl",
        "-o --output -L --log-file --tee",
        "",
        "-h --host -p --port -U --username -u --user -d --dbname -D --database",
        Texts,
    ),
    row(
        "gdb lldb",
        "-x -ex -ix -iex --command --eval-command --init-command --init-eval-command -s -S -o -O --source --one-line -k -K --one-line-on-crash --source-on-crash --batch-command --args",
        "",
        "-c --core -se --symbols",
        "-p --pid",
        Reads,
    ),
    row(
        "openssl",
        "-engine -provider -config -exec -rcfile -provider-path -conf -cmd",
        "-out -keyout -CAserial -outdir -writerand -sess_out -keylogfile -certout -signature-out",
        "-in -inkey -key -cert -CAfile -certfile -CA -CAkey -passin -pass -passout -kfile -rand -sess_in",
        "-connect -servername -days -subj -newkey -name -k -K -iv -port -accept",
        Texts,
    ),
    row(
        "gpg gpg2",
        "--options --homedir --agent-program --dirmngr-program --pinentry-program --keyserver-options --gpgconf --photo-viewer --list-config --load-extension --exec-path",
        "-o --output --logger-file --status-file --attribute-file",
        "--passphrase-file --import --trusted-key",
        "-u --local-user -r --recipient --keyserver --passphrase",
        Reads,
    ),
    row(
        "socat ncat nc netcat telnet",
        "-e -c --exec --sh-exec --lua-exec -lf --allowfile-run",
        "-o --output -x --hex-dump -r",
        "--ssl-cert --ssl-key --ssl-trustfile",
        "-p -w -i -s --source-port -X -x-proxy",
        Texts,
    ),
    row(
        "nmap tcpdump tshark",
        "--script --script-args-file -z --resume --datadir --servicedb --stylesheet -X-lua",
        "-w -oN -oX -oG -oA -oS",
        "-r -iL --excludefile -F",
        "-p -i -c -s -T -e -C -G -W -Z",
        Texts,
    ),
    row(
        "ffmpeg",
        "-filter_script -filter_complex_script -init_hw_device -pre",
        "-report",
        "-i",
        "-f -c -c:v -c:a -b -r -s -t -ss -to -vf -af -map -preset -crf -loglevel -v",
        Writes,
    ),
    row(
        "convert magick mogrify identify gs pdftotext pdflatex xelatex lualatex latex tex",
        "-shell-escape --shell-escape -enable-write18 -sOutputHandler -c -write-command -dNOSAFER",
        "-sOutputFile -o -output-directory -write --output-directory",
        "",
        "-resize -quality -density -sDEVICE",
        ReadsThenWrites,
    ),
    row(
        "pandoc",
        "-F --filter -L --lua-filter --pdf-engine --pdf-engine-opt --template -d --defaults --data-dir",
        "-o --output --extract-media --log",
        "--metadata-file --bibliography --csl -H -B -A --reference-doc",
        "-f --from -t --to -M -V",
        Reads,
    ),
    row(
        "jq yq gojq",
        "-L --library-path",
        "",
        "-f --from-file --rawfile --slurpfile --argfile",
        "--arg --argjson --indent",
        Reads,
    ),
    row(
        "fzf sk gum",
        "--preview --bind --execute --listen --become --history",
        "--history-file",
        "",
        "-q --query -f --filter -d -n",
        Texts,
    ),
    row(
        "apt apt-get dpkg rpm dnf yum zypper pacman apk snap brew port gem nix-env",
        "-o --option -c --config-file --pre-invoke --post-invoke --eval -E --define -D --pipe --admindir --root --instdir --config --hookdir --gpgdir --dbpath --installroot --setopt --rcfile --force-script --noscripts",
        "-d --download-dir --destdir --log --log-path",
        "-i --install",
        "-t --target-release -y",
        Texts,
    ),
    row(
        "svn hg jj bzr cvs",
        "--diff-cmd --diff3-cmd --editor-cmd --config-option --config-dir --config --config-file --merge-cmd --ssh --remotecmd -e --tool -R --repository --encoding-cmd",
        "--output -o",
        "-F --file -l --logfile",
        "-m --message -r --revision -u",
        Texts,
    ),
    row(
        "gh glab hub",
        "--editor --pager --web-browser --clone-config alias extension",
        "-D --dir -O --output --clobber",
        "-F --body-file --notes-file -i --input --template",
        "-R --repo -t --title -b --body -l --label -a -q --jq -f --field -X --method -H",
        Texts,
    ),
    row("crontab at batch", "", "", "-f", "-u -t -q", Reads),
    row(
        "start-stop-daemon run-parts logrotate inotifywait fswatch watchexec nodemon entr-run",
        "-x --exec -a --startas -S --start --regex -s --state --exec-on -c --command --arg",
        "-m --make-pidfile -l --log -o --outfile --state",
        "-p --pidfile --fromfile",
        "-n --name -u --user -e --event",
        Texts,
    ),
    row(
        "systemctl service launchctl journalctl loginctl hostnamectl",
        "edit link -H --host -M --machine --root -D --directory --file --image --pager --preset",
        "--vacuum-out --cursor-file",
        "",
        "-t --type -u --unit -n --lines -p --property --since --until -o --output",
        Texts,
    ),
    row("ip tc iptables nft", "-b -batch --batch netns -f --file -c --modprobe", "", "", "-n", Texts),
    row(
        "mount umount losetup dd-rescue",
        "-o --options -t --types -T --fstab --rbind --bind --options-source",
        "",
        "",
        "-L -U",
        ReadsThenWrites,
    ),
    row(
        "cc1 as objcopy strip ar ranlib nm-new",
        "--plugin --add-gnu-debuglink --dump-section",
        "-o --output -MD",
        "--add-section --update-section -I",
        "",
        Changes,
    ),
    row("iconv", "", "-o --output", "", "-f --from-code -t --to-code -c", Reads),
    row("recode dos2unix unix2dos", "", "", "", "-c --convmode -D --display-enc", Changes),
    row("expect wish", "-c -f -b", "", "", "", Script),
    row("tmux screen", "-c -X -S -f -L -s -p -E", "", "", "-t -n -x -y", Texts),
    row(
        "code subl open xdg-open",
        "-a --install-extension --extensions-dir --user-data-dir --args",
        "",
        "--diff",
        "-g --goto",
        Reads,
    ),
];

/// Variables of `make` that name the programs of its own rules, and those of most makefiles.
const OF_MAKE: &str = "\
    MAKE MAKE_COMMAND .SHELLFLAGS RM AS CPP FC F77 PC M2C CO GET LEX YACC LINT TEX MAKEINFO WEAVE TANGLE CWEAVE CTANGLE TEXI2DVI RANLIB \
    NM STRIP OBJCOPY OBJDUMP INSTALL INSTALL_PROGRAM INSTALL_DATA INSTALL_SCRIPT CP MV LN MKDIR MKDIR_P SED AWK GREP TAR PYTHON PERL NODE NPM GO";

/// Programs that are there to show something: to write is beside what they are for.
const ONLY_SHOW: &[&str] = &["less", "more", "most", "bat", "batcat", "delta", "jq", "man"];

/// What a program does by its arguments, as far as the table tells.
/// Returns the words that are no options, nor their values.
pub(crate) fn judge<'f>(name: &str, arguments: &'f [Field], judged: &mut Judged) -> Vec<&'f Field> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let named = |row: &&Row| has(row.names, name) || has(row.names, plain);
    let Some(row) = ROWS.iter().find(named) else { return Vec::new() };
    let is_tar = row.names.starts_with("tar ");
    if is_tar {
        tar_file(arguments, judged);
    }
    let mut operands = Vec::new();
    let (mut at, mut ended) = (0, false);
    while let Some(field) = arguments.get(at) {
        at += 1;
        let text = field.text.as_str();
        if is_tar && at == 1 && !text.starts_with('-') {
            at += row.cluster(text, &arguments[at..], judged);
            continue;
        }
        if ended || !text.starts_with('-') || text.len() < 2 {
            // A command for an editor or pager, or a subcommand that runs something.
            let commands = text.len() > 1 && text.starts_with('+') && matches!(row.operands, Reads | Changes);
            // `make SHELL=x`, `make CC='x y'`: a variable that names programs, or may.
            let sets = text.split_once('=').filter(|_| plain.ends_with("make")).is_some_and(|(variable, value)| {
                let name = variable.trim_end_matches([':', '?', '+', '!']).trim();
                let acts = |c: char| c.is_whitespace() || matches!(c, '$' | '`' | ';' | '|' | '&');
                steers(name) || has(OF_MAKE, name) || variable.ends_with('!') || value.contains(acts)
            });
            if commands || sets || has(row.runs, text) {
                judged.risky.push(text.to_string());
            }
            if !commands {
                operands.push(field);
            }
            continue;
        }
        if text == "--" {
            ended = true;
            continue;
        }
        let Some((kind, value)) = row.option(field) else { continue };
        let value = match value {
            Some(value) => Some(value),
            None if kind == Kind::Runs => None,
            None => {
                at += 1;
                arguments.get(at - 1).cloned()
            }
        };
        match kind {
            Kind::Runs => judged.risky.push(text.to_string()),
            Kind::Writes => {
                if ONLY_SHOW.contains(&name) {
                    judged.risky.push(text.to_string());
                }
                // `ssh-keygen -yf key` prints it.
                judged.reads.extend(value.clone().filter(|_| name == "ssh-keygen"));
                judged.writes.extend(value);
            }
            Kind::Reads => judged.reads.extend(value),
            Kind::Value => {}
        }
    }
    // What it takes out of an archive are names in it.
    if !is_tar || creates(arguments) {
        row.operands(&operands, judged);
    }
    in_place(plain, arguments, &operands, judged);
    operands
}

/// What a program changes in its place where an option says so.
fn in_place(plain: &str, arguments: &[Field], operands: &[&Field], judged: &mut Judged) {
    // The first word of `yq` is its program.
    let in_place = ["-i", "-pi", "-ni", "--in-place", "--inplace"];
    let is_in_place = |field: &Field| in_place.iter().any(|option| field.text.starts_with(option));
    if matches!(plain, "perl" | "ruby" | "yq") && arguments.iter().any(is_in_place) {
        judged.writes.extend(operands.iter().skip(usize::from(plain == "yq")).map(|field| (*field).clone()));
    }
    let fixes =
        ["--write", "-w", "--fix", "--fix-dry-run"].map(|option| arguments.iter().any(|field| field.text == option));
    if has(FIXERS, plain) && fixes.contains(&true) {
        judged.writes.extend(operands.iter().map(|field| (*field).clone()));
    }
}

/// Programs that change the files that they look at where an option says so.
const FIXERS: &str = "prettier eslint stylelint oxlint tslint rubocop standard xo";

/// Whether the table has a program.
pub(crate) fn has_files(name: &str) -> bool {
    ROWS.iter().any(|row| has(row.names, name))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Runs,
    Writes,
    Reads,
    Value,
}

impl Row {
    /// What kind of option a word is, with the value that is glued to it.
    fn option(&self, field: &Field) -> Option<(Kind, Option<Field>)> {
        let text = field.text.as_str();
        let kinds = [
            (self.runs, Kind::Runs),
            (self.writes, Kind::Writes),
            (self.reads, Kind::Reads),
            (self.values, Kind::Value),
        ];
        let kind = |option: &str| kinds.iter().find(|(list, _)| has(list, option)).map(|(_, kind)| *kind);
        let (name, glued) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(tail(field, value))));
        if let Some(kind) = kind(name) {
            return Some((kind, glued));
        }
        // `-TT'command'`: a long option of one dash takes what is glued to it.
        let is_glued = |option: &str| option.len() > 2 && !option.starts_with("--") && text.starts_with(option);
        if self.runs.split_whitespace().any(is_glued) {
            return Some((Kind::Runs, glued));
        }
        if let Some(long) = name.strip_prefix("--") {
            // GNU programs take any beginning of a long option.
            let begins =
                |list: &str| list.split_whitespace().any(|option| option.len() > 3 && option.starts_with(name));
            let found = kinds.iter().find(|(list, _)| long.len() > 2 && begins(list));
            return found.map(|(_, kind)| (*kind, glued));
        }
        // `-Cdir`, `-xzfa.tar`: the first letter that takes a value takes the rest.
        text.char_indices().skip(1).find_map(|(at, letter)| {
            let kind = kind(&format!("-{letter}"))?;
            let rest = &text[at + letter.len_utf8()..];
            Some((kind, (!rest.is_empty()).then(|| tail(field, rest))))
        })
    }

    /// The letters in front of `tar cfI a.tar program`: the values of those that have one stand behind all of them, in order. How
    /// many there are.
    fn cluster(&self, letters: &str, values: &[Field], judged: &mut Judged) -> usize {
        let mut taken = 0;
        for letter in letters.chars() {
            let option = format!("-{letter}");
            let lists = [self.runs, self.writes, self.reads, self.values];
            let Some(list) = lists.iter().position(|list| has(list, &option)) else { continue };
            let value = values.get(taken).cloned();
            taken += 1;
            match list {
                0 => judged.risky.push(letters.to_string()),
                1 => judged.writes.extend(value),
                2 => judged.reads.extend(value),
                _ => {}
            }
        }
        taken
    }

    fn operands(&self, operands: &[&Field], judged: &mut Judged) {
        let all = || operands.iter().map(|field| (*field).clone());
        match self.operands {
            Texts => {}
            Reads => judged.reads.extend(all()),
            Writes => judged.writes.extend(all()),
            Changes => {
                judged.reads.extend(all());
                judged.writes.extend(all());
            }
            WritesThenReads => {
                judged.writes.extend(all().take(1));
                judged.reads.extend(all().skip(1));
            }
            ReadsThenWrites => {
                let last = operands.len().saturating_sub(1).max(1);
                judged.reads.extend(all().take(last));
                judged.writes.extend(all().skip(last));
            }
            Script => judged.reads.extend(all().take(1)),
        }
    }
}

/// Whether `tar` makes or changes an archive, wherever the letter for that stands: `tar cf a`, `tar -c -f a`.
pub(crate) fn creates(arguments: &[Field]) -> bool {
    let makes = |letters: &str| {
        letters
            .split(['f', 'C', 'T', 'X', 'I', 'F', 'g', 'b'])
            .next()
            .unwrap_or_default()
            .contains(['c', 'r', 'u', 'A'])
    };
    let long = ["--create", "--append", "--update", "--concatenate", "--catenate"];
    arguments.iter().enumerate().any(|(at, field)| {
        let text = field.text.as_str();
        let letters = if at == 0 { Some(text.trim_start_matches('-')) } else { text.strip_prefix('-') };
        long.contains(&text) || !text.starts_with("--") && letters.is_some_and(makes)
    })
}

/// The archive of `tar`: written where one is made, else read.
fn tar_file(arguments: &[Field], judged: &mut Judged) {
    let creates = creates(arguments);
    for (at, field) in arguments.iter().enumerate() {
        let text = field.text.as_str();
        let value = if let Some(value) = text.strip_prefix("--file=") {
            Some(tail(field, value))
        } else if text == "--file" {
            arguments.get(at + 1).cloned()
        } else {
            let letters = if at == 0 { Some(text.trim_start_matches('-')) } else { text.strip_prefix('-') };
            letters.filter(|letters| !letters.starts_with('-') && !letters.contains(['/', '='])).and_then(|letters| {
                let place = letters.find('f')?;
                let rest = &letters[place + 1..];
                // Without a dash the values stand behind all letters.
                if text.starts_with('-') && !rest.is_empty() {
                    Some(tail(field, rest))
                } else {
                    arguments.get(at + 1).cloned()
                }
            })
        };
        let Some(value) = value else { continue };
        // `host:file` is on another machine.
        let is_remote = |path: &str| path.split('/').next().is_some_and(|front| front.contains(':'));
        if is_remote(&value.text) && !arguments.iter().any(|field| field.text == "--force-local") {
            judged.hosts.extend(value.text.split(':').next().and_then(host));
            judged.risky.push(value.text);
        } else if creates {
            judged.writes.push(value);
        } else {
            judged.reads.push(value);
        }
    }
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}
