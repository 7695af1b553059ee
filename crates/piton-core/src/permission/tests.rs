//! What rules, modes and grants make of calls.

use super::{Action, Ask, Grant, PermissionMode, Reach, Rule, Rules, Voice};
use crate::call::{Access, CommandPart};

/// A call in `/w`, without a sandbox, where nothing is said of what is reached.
fn ask<'a>(tool: &'a str, accesses: &'a [Access]) -> Ask<'a> {
    static NOTHING_SAID: Reach =
        Reach { home: String::new(), read: Vec::new(), never: Vec::new(), hosts: Vec::new(), protected: Vec::new() };
    Ask { tool, accesses, workspace: "/w", is_confined: false, reach: &NOTHING_SAID }
}

fn action(rules: &Rules, tool: &str, access: Access) -> Action {
    rules.judge(&ask(tool, &[access])).action
}

fn reading(rules: &Rules) -> Action {
    action(rules, "read", Access::Read("/w/a".into()))
}

fn editing(rules: &Rules) -> Action {
    action(rules, "edit", Access::Write("/w/a".into()))
}

fn running(rules: &Rules) -> Action {
    action(rules, "bash", Access::Run("make".into()))
}

#[test]
fn without_rules_reading_is_allowed_and_the_rest_is_asked() {
    let rules = Rules::default();
    assert_eq!((reading(&rules), editing(&rules), running(&rules)), (Action::Allow, Action::Ask, Action::Ask));
    assert_eq!(action(&rules, "fetch", Access::Reach("example.com".into())), Action::Ask);
    assert_eq!(rules.judge(&ask("todo", &[])).action, Action::Allow);
}

#[test]
fn the_most_particular_rule_wins_and_among_equals_the_last() {
    let mut rules = Rules::default();
    rules.push("*", Action::Allow);
    rules.push("bash", Action::Deny);
    assert_eq!((editing(&rules), running(&rules)), (Action::Allow, Action::Deny));
    assert!(rules.forbid("bash") && !rules.forbid("edit"));
    rules.push("*", Action::Ask);
    assert_eq!((reading(&rules), running(&rules)), (Action::Ask, Action::Deny));
    rules.push("bash", Action::Ask);
    assert!(!rules.forbid("bash"));
    let particular = self::rules(&[("bash(make *)", Action::Allow), ("bash", Action::Deny)]);
    assert_eq!(
        action(&particular, "bash", command("make")),
        Action::Allow,
        "a pattern is more particular than its tool"
    );
}

#[test]
fn a_grant_answers_the_question_it_was_given_to_and_no_other() {
    let makes = [Access::Run("make".into())];
    let ask = ask("bash", &makes);
    let grant = |asked_by| [Grant { rule: Rule::of("bash", Action::Allow), asked_by, at_ms: 0 }];
    let rules = |action| {
        let mut rules = Rules::default();
        rules.push("bash", action);
        rules
    };
    let asks = rules(Action::Ask);
    let by_default = grant(None);
    assert_eq!(Rules::default().judge_in(PermissionMode::Ask, &by_default, &ask).action, Action::Allow);
    assert_eq!(
        asks.judge_in(PermissionMode::Ask, &by_default, &ask).action,
        Action::Ask,
        "somebody wants to be asked since"
    );
    assert_eq!(rules(Action::Deny).judge_in(PermissionMode::Ask, &by_default, &ask).action, Action::Deny);
    assert_eq!(
        asks.judge_in(PermissionMode::Ask, &grant(asks.0.last().cloned()), &ask).action,
        Action::Allow,
        "the rule it was given under"
    );
    let writes = [Access::Write("/a".into())];
    let other = Ask { tool: "edit", accesses: &writes, ..ask };
    assert_eq!(Rules::default().judge_in(PermissionMode::Ask, &by_default, &other).action, Action::Ask);
}

#[test]
fn a_mode_answers_what_the_rules_would_ask_and_lifts_no_ban() {
    let mut rules = Rules::default();
    rules.push("fetch", Action::Deny);
    rules.push("edit", Action::Ask);
    let asked = rules.judge_in(PermissionMode::AcceptEdits, &[], &ask("edit", &[Access::Write("/w/a".into())]));
    assert_eq!(asked.action, Action::Ask, "who wants to be asked is asked");
    rules.0.pop();
    let judged = |mode, tool, access: Access| rules.judge_in(mode, &[], &ask(tool, &[access])).action;
    let row = |mode| {
        [
            judged(mode, "read", Access::Read("/w/a".into())),
            judged(mode, "edit", Access::Write("/w/a".into())),
            judged(mode, "edit", Access::Write("/w/../etc/passwd".into())),
            judged(mode, "edit", Access::Write("/wide/a".into())),
            judged(mode, "bash", Access::Run("make".into())),
            judged(mode, "other", Access::Use("other".into())),
            judged(mode, "fetch", Access::Reach("example.com".into())),
        ]
    };
    use Action::{Allow, Ask as A, Deny};
    assert_eq!(row(PermissionMode::Ask), [Allow, A, A, A, A, A, Deny]);
    assert_eq!(row(PermissionMode::AcceptEdits), [Allow, Allow, A, A, A, A, Deny]);
    assert_eq!(row(PermissionMode::Auto), [Allow, Allow, Allow, Allow, Allow, Allow, Deny]);
    assert_eq!(row(PermissionMode::Plan), [Allow, Deny, Deny, Deny, Deny, Deny, Deny]);
}

#[test]
fn a_new_host_is_asked_about_in_every_mode() {
    let reach = Reach { hosts: vec!["open.test".into(), "*.below.test:8443".into()], ..Reach::default() };
    let judged = |of: &[(&str, Action)], tool, host: &str| {
        let accesses = [Access::Reach(host.into())];
        rules(of).judge_in(PermissionMode::Auto, &[], &Ask { reach: &reach, ..ask(tool, &accesses) })
    };
    let new = judged(&[], "web_fetch", "new.test");
    let always: Vec<String> = new.remember.0.iter().map(ToString::to_string).collect();
    assert_eq!((new.action, always.as_slice()), (Action::Ask, &["net(domain:new.test)".to_owned()][..]));
    let action = |of: &[(&str, Action)], host| judged(of, "web_fetch", host).action;
    for rule in ["web_fetch", "net(domain:new.test)", "web_fetch(domain:*.test)", "*"] {
        assert_eq!(action(&[(rule, Action::Allow)], "new.test"), Action::Allow, "{rule}");
    }
    assert_eq!(action(&[("net(domain:other.test)", Action::Allow)], "new.test"), Action::Ask);
    assert_eq!(action(&[("net", Action::Deny)], "new.test"), Action::Deny);
    assert_eq!((action(&[], "open.test"), action(&[], "open.test:8080")), (Action::Allow, Action::Ask));
    assert_eq!((action(&[], "a.below.test:8443"), action(&[], "a.below.test")), (Action::Allow, Action::Ask));
    let in_command = [command("curl new.test"), Access::Reach("new.test".into())];
    let of = |is_confined| {
        let ask = Ask { is_confined, ..ask("bash", &in_command) };
        Rules::default().judge_in(PermissionMode::Auto, &[], &ask).action
    };
    assert_eq!((of(true), of(false)), (Action::Allow, Action::Allow), "the sandbox holds it, or nobody can know");
}

#[test]
fn what_git_runs_is_more_than_an_edit() {
    for path in ["/w/.git/hooks/pre-commit", "/w/sub/.GIT/config", "/w/.piton/config.toml"] {
        let writes = [Access::Write(path.into())];
        let ask = ask("write", &writes);
        assert_eq!(Rules::default().judge_in(PermissionMode::AcceptEdits, &[], &ask).action, Action::Ask, "{path}");
    }
}

#[test]
fn plan_refuses_what_rules_and_answers_allow() {
    let mut rules = Rules::default();
    rules.push("bash", Action::Allow);
    let makes = [Access::Run("make".into())];
    let ask = ask("bash", &makes);
    assert_eq!(rules.judge_in(PermissionMode::Plan, &[], &ask).action, Action::Deny);
}

#[test]
fn only_a_person_lets_a_call_out_of_the_sandbox_and_only_this_one() {
    let accesses = [Access::Run("make".into()), Access::Unsandboxed("it needs the network".into())];
    let ask = Ask { is_confined: true, ..ask("bash", &accesses) };
    let rules = Rules(vec![Rule::of("bash", Action::Allow)]);
    let grants = [Grant { rule: rules.0[0].clone(), asked_by: None, at_ms: 0 }];
    for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
        for (rules, grants) in [(&rules, &[][..]), (&Rules::default(), &grants)] {
            let judged = rules.judge_in(mode, grants, &ask);
            assert_eq!((judged.action, judged.remember.is_empty()), (Action::Ask, true), "{mode}");
            let asked = judged.parts.iter().find(|part| part.action == Action::Ask).unwrap();
            assert_eq!(
                (asked.named().as_str(), asked.why.as_str()),
                ("leaving the sandbox", "it would run with all your rights")
            );
        }
    }
    let forbids = Rules(vec![Rule::of("bash", Action::Deny)]);
    assert_eq!(forbids.judge_in(PermissionMode::Auto, &[], &ask).action, Action::Deny);
    assert_eq!(Rules::default().judge_in(PermissionMode::Plan, &[], &ask).action, Action::Deny);
}

#[test]
fn a_mode_is_one_of_four_words() {
    for mode in PermissionMode::ALL {
        assert_eq!(mode.name().parse(), Ok(mode));
        assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
    }
    assert!("yolo".parse::<PermissionMode>().unwrap_err().to_string().contains("accept-edits"));
}

#[test]
fn always_would_allow_the_tool_but_never_every_command() {
    let mut rules = Rules::default();
    let uses = [Access::Use("mcp__db__query".into())];
    let ask = ask("mcp__db__query", &uses);
    let judged = rules.judge(&ask);
    assert_eq!((judged.action, judged.rule), (Action::Ask, None));
    rules.0.extend(judged.remember.0);
    assert_eq!(rules.judge(&ask).action, Action::Allow);
    let nothing_named = || Access::Command(Box::default());
    for (tool, accesses) in [
        ("bash", vec![Access::Run("x=1 > f".into())]),
        ("bash", vec![Access::Run("x=1 > f".into()), Access::Write("/w/f".into())]),
        ("bash", vec![Access::Run("> $f".into()), nothing_named(), Access::Write("/w/f".into())]),
        ("skill", vec![super::use_of("skill", "deploy"), Access::Run("x=1".into())]),
    ] {
        for asks in [&[][..], &[("bash", Action::Ask), ("skill", Action::Ask)]] {
            let judged = self::rules(asks).judge(&self::ask(tool, &accesses));
            assert_eq!((judged.action, judged.remember.0), (Action::Ask, vec![]), "{tool} {accesses:?}");
        }
    }
}

fn command(words: &str) -> Access {
    let words = words.split(' ').map(ToOwned::to_owned).collect();
    Access::Command(Box::new(CommandPart { words, ..CommandPart::default() }))
}

fn rules(of: &[(&str, Action)]) -> Rules {
    Rules(of.iter().map(|(text, action)| Rule::parse(text, *action).unwrap()).collect())
}

#[test]
fn a_script_is_as_allowed_as_the_strictest_of_its_commands() {
    let rules =
        rules(&[("bash(git *)", Action::Allow), ("bash(git push *)", Action::Ask), ("bash(rm *)", Action::Deny)]);
    let judged = |parts: &[Access]| rules.judge(&ask("bash", parts)).action;
    assert_eq!(judged(&[Access::Run("git status".into()), command("git status")]), Action::Allow);
    assert_eq!(judged(&[command("git status"), command("make")]), Action::Ask);
    assert_eq!(judged(&[command("git status"), command("git push origin")]), Action::Ask);
    assert_eq!(judged(&[command("git status"), command("rm -rf x"), command("make")]), Action::Deny);
    let code = Access::Command(Box::new(CommandPart {
        words: vec!["python3".into(), "-c".into(), "x".into()],
        code: Some("os.system('rm -rf x')".into()),
        ..CommandPart::default()
    }));
    assert_eq!(judged(&[code]), Action::Deny, "code that mentions what is forbidden");
}

#[test]
fn in_a_sandbox_commands_run_where_edits_are_accepted_and_the_harmless_always() {
    let judged = |mode, is_confined, access: Access| {
        Rules::default().judge_in(mode, &[], &Ask { is_confined, ..ask("bash", &[access]) }).action
    };
    let harmless = || {
        Access::Command(Box::new(CommandPart { words: vec!["ls".into()], is_harmless: true, ..CommandPart::default() }))
    };
    let row =
        |access: &dyn Fn() -> Access, is_confined| PermissionMode::ALL.map(|mode| judged(mode, is_confined, access()));
    use Action::{Allow, Ask as A, Deny};
    // Plan, ask, accept-edits, auto.
    assert_eq!(row(&harmless, true), [Allow, Allow, Allow, Allow]);
    assert_eq!(row(&harmless, false), [Deny, A, A, Allow]);
    assert_eq!(row(&|| command("make"), true), [Deny, A, Allow, Allow]);
    assert_eq!(row(&|| command("make"), false), [Deny, A, A, Allow]);
    // A line that runs no program: assignments, a comment.
    let shell = || Access::Command(Box::new(CommandPart { is_harmless: true, ..CommandPart::default() }));
    assert_eq!(row(&shell, true), [Allow, Allow, Allow, Allow]);
    assert_eq!(row(&shell, false), [Deny, A, A, Allow]);
    assert_eq!(row(&|| Access::Unknowable("$x".into()), true), [Deny, A, Allow, Allow]);
    assert_eq!(row(&|| Access::Unknowable("$x".into()), false), [Deny, A, A, Allow]);
}

#[test]
fn what_cannot_be_known_is_never_allowed_by_a_rule_nor_past_one_that_forbids() {
    let unknowable = [Access::Unknowable("$x".into())];
    let of = |rules: &Rules, mode, is_confined| {
        let judged = rules.judge_in(mode, &[], &Ask { is_confined, ..ask("bash", &unknowable) });
        (judged.action, judged.remember.is_empty())
    };
    let allows = rules(&[("bash", Action::Allow)]);
    assert_eq!(of(&allows, PermissionMode::Ask, false), (Action::Ask, true));
    let forbids = rules(&[("bash(rm *)", Action::Deny), ("bash", Action::Allow)]);
    assert_eq!(of(&forbids, PermissionMode::AcceptEdits, true), (Action::Ask, true));
    assert_eq!(of(&forbids, PermissionMode::Auto, true).0, Action::Deny);
}

#[test]
fn another_voice_can_only_be_stricter_but_where_the_user_says_nothing() {
    let judged = |said: &[(Voice, &[(&str, Action)])]| {
        let of = |(voice, said): &(Voice, &[(&str, Action)])| {
            let voice = *voice;
            rules(said).0.into_iter().map(move |rule| Rule { voice, ..rule })
        };
        Rules(said.iter().flat_map(of).collect()).judge(&ask("bash", &[command("git push")])).action
    };
    let finer = |action| [("bash(git push)", action)];
    for other in [Voice::Repository, Voice::Preset] {
        let both = |user: &[(&str, Action)], theirs: &[(&str, Action)]| judged(&[(Voice::User, user), (other, theirs)]);
        assert_eq!(both(&[("bash", Action::Deny)], &finer(Action::Allow)), Action::Deny, "{other:?}");
        assert_eq!(both(&[("bash", Action::Ask)], &finer(Action::Allow)), Action::Ask, "{other:?}");
        assert_eq!(both(&[], &finer(Action::Allow)), Action::Allow, "{other:?}");
        assert_eq!(both(&finer(Action::Allow), &[("bash", Action::Deny)]), Action::Deny, "{other:?}");
        assert_eq!(both(&finer(Action::Allow), &[("*", Action::Ask)]), Action::Ask, "{other:?}");
        // Within one voice the finer word counts; between two, the stricter.
        assert_eq!(both(&[], &[("bash", Action::Deny), finer(Action::Allow)[0]]), Action::Allow, "{other:?}");
        for voice in Voice::ALL.into_iter().filter(|voice| *voice != other) {
            for forbids in [Action::Ask, Action::Deny] {
                let strict = judged(&[(other, &finer(Action::Allow)), (voice, &[("bash", forbids)])]);
                assert_eq!(strict, forbids, "{voice:?} is past {other:?}");
            }
        }
    }
    for voice in [Voice::Agent, Voice::Narrowing] {
        assert_eq!(judged(&[(voice, &finer(Action::Allow))]), Action::Ask, "{voice:?} allows nothing");
    }
}

#[test]
fn always_covers_the_parts_that_asked_and_no_more() {
    let rules = rules(&[("bash(cargo test *)", Action::Allow)]);
    let judged = rules.judge(&ask("bash", &[command("cargo test -q"), command("git log -1"), command("git log -2")]));
    let always: Vec<String> = judged.remember.0.iter().map(ToString::to_string).collect();
    assert_eq!(always, ["bash(git log *)"]);
    let grant = Grant { rule: judged.remember.0[0].clone(), asked_by: None, at_ms: 0 };
    let later = |words: &str| {
        rules.judge_in(PermissionMode::Ask, std::slice::from_ref(&grant), &ask("bash", &[command(words)])).action
    };
    assert_eq!((later("git log"), later("git push")), (Action::Allow, Action::Ask));
    let edits = |path: &str| rules.judge(&ask("edit", &[Access::Write(path.into())])).remember.0[0].to_string();
    assert_eq!(edits("/w/a"), "edit(./a)");
    assert_eq!((edits("/w/src/a"), edits("/x/y/a")), ("edit(./src/**)".to_owned(), "edit(/x/y/**)".to_owned()));
}

#[test]
fn a_file_tool_asks_each_time_about_what_the_sandbox_protects() {
    let reach = Reach { protected: vec![".vscode".into(), ".husky/_".into(), "/.bashrc".into()], ..Reach::default() };
    let allows = rules(&[("*", Action::Allow)]);
    let of = |mode, path: &str| {
        let access = [Access::Write(path.into())];
        let asked = Ask { reach: &reach, is_confined: true, ..ask("write", &access) };
        let judged = allows.judge_in(mode, &[], &asked);
        (judged.action, judged.is_asked_each_time)
    };
    let protected = ["/w/.vscode/tasks.json", "/w/sub/.VSCode", "/w/a/.husky/_/x", "/w/.bashrc"];
    for path in protected {
        assert_eq!(of(PermissionMode::Auto, path), (Action::Ask, true), "{path}");
        assert_eq!(of(PermissionMode::Plan, path).0, Action::Deny, "{path}");
    }
    for path in ["/w/.vscodes", "/w/.husky/pre-commit", "/w/sub/.bashrc"] {
        assert_eq!(of(PermissionMode::Auto, path), (Action::Allow, false), "{path}");
    }
}

#[test]
fn a_file_tool_asks_about_files_of_ci_and_lock_files_and_a_command_may_write_them() {
    let of = |mode, is_confined, accesses: &[Access]| {
        let judged = Rules::default().judge_in(mode, &[], &Ask { is_confined, ..ask("write", accesses) });
        (judged.action, judged.is_asked_each_time)
    };
    use PermissionMode::{AcceptEdits, Ask as Asks, Auto};
    let writes = |path: &str| [Access::Write(path.into())];
    for is_confined in [true, false] {
        for path in ["/w/.github/workflows/ci.yml", "/w/a/.GitLab-CI.yml", "/w/Jenkinsfile"] {
            assert_eq!(of(Auto, is_confined, &writes(path)), (Action::Ask, true), "{path}");
        }
        for path in ["/w/Cargo.lock", "/w/a/package-lock.json"] {
            assert_eq!(of(Auto, is_confined, &writes(path)).0, Action::Allow, "{path}");
            assert_eq!(of(AcceptEdits, is_confined, &writes(path)), (Action::Ask, false), "{path}");
            assert_eq!(of(Asks, is_confined, &writes(path)).0, Action::Ask, "{path}");
        }
        assert_eq!(of(AcceptEdits, is_confined, &writes("/w/.github/CODEOWNERS")).0, Action::Allow);
        let by_command = [command("make"), Access::Write("/w/Cargo.lock".into())];
        assert_eq!(of(Auto, is_confined, &by_command).0, Action::Allow);
    }
}

#[test]
fn without_a_sandbox_the_same_is_protected_and_writes_elsewhere_are_asked_about_as_reads_are() {
    let reach = Reach {
        protected: vec![".envrc".into()],
        read: vec!["/usr".into()],
        never: vec!["/k".into()],
        ..Reach::default()
    };
    let of = |accesses: &[Access]| {
        let asked = Ask { reach: &reach, ..ask("write", accesses) };
        Rules::default().judge_in(PermissionMode::Auto, &[], &asked).action
    };
    let redirects = |path: &str| [command("echo x"), Access::Write(path.into())];
    assert_eq!(of(&[Access::Write("/w/.envrc".into())]), Action::Ask);
    assert_eq!(of(&redirects("/w/a/.envrc")), Action::Ask);
    for path in ["/esc.txt", "/home/me/.bashrc", "/usr/lib/x"] {
        assert_eq!(of(&[Access::Write(path.into())]), Action::Ask, "{path}");
    }
    assert_eq!(of(&[Access::Write("/k/id".into())]), Action::Deny);
    assert_eq!(of(&[Access::Write("/w/a".into())]), Action::Allow);
    assert_eq!(of(&redirects("/tmp/x")), Action::Allow, "a command may write there in ways that nobody sees");
}

#[test]
fn keys_and_pitons_own_files_are_for_no_call() {
    let reach = Reach {
        home: "/home/me".into(),
        read: vec!["/usr".into(), "/home/me/piton/sessions".into()],
        never: vec!["/home/me/.ssh".into(), "/home/me/piton".into()],
        ..Reach::default()
    };
    let all = rules(&[("*", Action::Allow)]);
    let of = |rules: &Rules, access: Access| {
        let asked = Ask { reach: &reach, ..ask("any", std::slice::from_ref(&access)) };
        rules.judge_in(PermissionMode::Auto, &[], &asked).action
    };
    assert_eq!(of(&all, Access::Read("/home/me/.ssh/id".into())), Action::Deny);
    assert_eq!(of(&all, Access::Write("/home/me/piton/sessions/s/journal".into())), Action::Deny);
    assert_eq!(of(&all, Access::Read("/home/me/piton/sessions/s/calls/c.out".into())), Action::Allow);
    // Of what a pattern stands for only a part is to be read.
    assert_eq!(of(&all, Access::Read("/home/me/piton/s*/s/calls/c.out".into())), Action::Deny);
    assert_eq!(of(&all, Access::Read("/home/me/piton/sessions/s/calls/*.out".into())), Action::Allow);
    // Folders that hold them: no rule allows that, and a person is asked each time.
    for above in ["/home/me", "/home", "/"] {
        assert_eq!(of(&all, Access::Write(above.into())), Action::Ask, "{above}");
    }
    assert_eq!(of(&all, Access::Write("/home/me/other".into())), Action::Allow);
    let none = Rules::default();
    assert_eq!(of(&none, Access::Read("/usr/bin/env".into())), Action::Allow);
    assert_eq!(of(&none, Access::Read("/home/me/other/a".into())), Action::Ask);
}

#[test]
fn what_forbids_by_a_pattern_is_lifted_only_by_a_finer_word_on_the_same() {
    let judged = |of: &[(&str, Action)], access: Access| {
        rules(of).judge_in(PermissionMode::Auto, &[], &ask("bash", &[access])).action
    };
    let sudo = || {
        Access::Command(Box::new(CommandPart {
            words: vec!["rm".into(), "x".into()],
            through: vec!["sudo".into()],
            ..CommandPart::default()
        }))
    };
    let no_rm = ("bash(rm *)", Action::Deny);
    assert_eq!(judged(&[no_rm, ("bash(sudo *)", Action::Allow)], sudo()), Action::Deny);
    assert_eq!(judged(&[no_rm, ("bash(rm x)", Action::Allow)], command("rm x")), Action::Allow);
    let secret = || Access::Read("/w/.env".into());
    assert_eq!(judged(&[("Read(.env)", Action::Deny), ("Read(/w/**)", Action::Allow)], secret()), Action::Deny);
    let folder = || Access::Write("/w/secret".into());
    assert_eq!(judged(&[("Edit(secret/**)", Action::Deny)], folder()), Action::Deny);
    let open = || Access::SomePath("$f".into());
    assert_eq!(judged(&[("Edit(secret/**)", Action::Deny)], open()), Action::Deny);
}

#[test]
fn who_opens_a_whole_folder_opens_what_is_forbidden_there() {
    let searches = |folder: &str, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Access::Command(Box::new(CommandPart {
            words: vec!["grep".into(), "-r".into(), "x".into(), folder.into()],
            is_harmless: true,
            below: vec![piton_shell::Below { folder: folder.to_owned(), names, hidden: true }],
            ..CommandPart::default()
        }))
    };
    let judged = |of: &[(&str, Action)], mode, is_confined, access: Access| {
        let judged = rules(of).judge_in(mode, &[], &Ask { is_confined, ..ask("bash", &[access]) });
        (judged.action, judged.is_asked_each_time, judged.parts[0].why.contains(".env"))
    };
    use PermissionMode::{AcceptEdits, Auto};
    let (forbids, asks) = (("Read(.env)", Action::Deny), ("read(.env)", Action::Ask));
    let (greps, all) = (("bash(grep *)", Action::Allow), || searches("/w", &[]));
    for is_confined in [false, true] {
        assert_eq!(judged(&[forbids, greps], AcceptEdits, is_confined, all()), (Action::Ask, true, true));
        assert_eq!(judged(&[forbids, greps], Auto, is_confined, all()), (Action::Deny, false, true));
        assert_eq!(judged(&[asks, greps], AcceptEdits, is_confined, all()), (Action::Ask, true, true));
        assert_eq!(judged(&[asks, greps], Auto, is_confined, all()).0, Action::Allow, "as `cat .env` is");
        assert_eq!(judged(&[forbids, greps], Auto, is_confined, searches("/w", &["*.rs"])).0, Action::Allow);
        assert_eq!(judged(&[forbids, greps], Auto, is_confined, searches("/v", &[])).0, Action::Allow);
    }
    let reach = Reach { never: vec!["/home/me/.ssh".into()], ..Reach::default() };
    let of = |folder: &str| {
        let accesses = [searches(folder, &[])];
        rules(&[greps]).judge_in(Auto, &[], &Ask { reach: &reach, ..ask("bash", &accesses) }).action
    };
    assert_eq!((of("/home"), of("/w")), (Action::Deny, Action::Allow));
}

#[test]
fn a_search_passes_over_what_may_not_be_read() {
    let reach = Reach { never: vec!["/home/me/.ssh".into()], ..Reach::default() };
    let ask = Ask { reach: &reach, ..ask("grep", &[]) };
    let rules = rules(&[("Read(.env)", Action::Deny), ("read(*.pem)", Action::Ask), ("grep", Action::Ask)]);
    let withheld = |mode, path| rules.withhold(mode, &ask, path);
    use PermissionMode::{AcceptEdits, Auto};
    assert!(withheld(Auto, "/w/a/.env") && withheld(Auto, "/home/me/.ssh/id") && withheld(AcceptEdits, "/w/a.pem"));
    assert!(!withheld(Auto, "/w/a.pem") && !withheld(AcceptEdits, "/w/a.rs"));
}

#[test]
fn a_wish_to_be_asked_makes_nothing_more_lenient() {
    let reach = Reach { read: vec!["/usr".into()], ..Reach::default() };
    let wishes = rules(&[("Read", Action::Ask)]);
    let read = [Access::Read("/elsewhere/a".into())];
    let asked = Ask { reach: &reach, ..ask("read", &read) };
    assert_eq!(wishes.judge_in(PermissionMode::Auto, &[], &asked).action, Action::Ask);
    let inside = [Access::Read("/w/a".into())];
    assert_eq!(wishes.judge_in(PermissionMode::Plan, &[], &ask("read", &inside)).action, Action::Ask);
}
