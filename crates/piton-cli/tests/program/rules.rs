//! Permission rules in the program: where they come from, what older configuration means, and what of them the audit shows.

use crate::permission::check;
use crate::stage::Stage;
use serde_json::json;

#[test]
fn a_host_is_the_same_in_every_spelling() {
    let stage = Stage::new(json!([]));
    for rule in ["net(domain:bücher.example)", "net(domain:xn--bcher-kva.example)", "WebFetch(domain:*.EXAMPLE)"] {
        for (command, expected) in [
            ("curl https://bücher.example/x", "deny"),
            ("curl https://BÜCHER.example.:443/x", "deny"),
            ("curl https://b%C3%BCcher.example", "deny"),
            ("curl https://xn--bcher-kva.example", "deny"),
            ("H=bücher.example; curl \"https://$H\"", "deny"),
            ("> f; H=bücher.example; curl \"https://$H\"", "deny"),
            ("curl https://bucher.test", "allow"),
            ("echo bücher.example", "allow"),
        ] {
            let said = check(&stage, &["--deny", rule, "--mode", "auto"], command);
            assert_eq!(said["action"], expected, "{rule}: {command}: {said}");
        }
    }
    // So is the host that a tool of Piton's own would reach, in a rule that opens it.
    for (rule, code) in [("net(domain:döcs.test)", 0), ("net(domain:docs.test)", 3)] {
        let fetch =
            json!([{"tools": [{"name": "web_fetch", "args": {"url": "http://döcs.test/x"}}]}, {"text": "Done."}]);
        let ran = Stage::new(fetch).run(&["--allow", rule, "go"]);
        let verdict = ran.all("call_requested")[0]["verdict"].clone();
        assert_eq!((verdict == "allow", ran.code), (code == 0, code), "{rule}: {verdict} {}", ran.stderr);
    }
}

/// Lines that run no program, and what "always" to them adds.
#[test]
fn always_is_never_the_whole_of_bash() {
    let stage = Stage::new(json!([]));
    for command in ["x=1", "> f", "x=1 > f", "# only a comment", "> $f", "> /dev/tcp/h.test/80", "PATH=.", "[[ -f x ]]"]
    {
        for flags in [&["--mode", "ask"][..], &["--mode", "ask", "--ask", "bash"]] {
            let said = check(&stage, flags, command);
            assert_eq!((&said["action"], &said["always"]), (&json!("ask"), &json!([])), "{flags:?} {command}: {said}");
        }
        // Whoever allows every command has allowed these; what they write is another matter.
        let said = check(&stage, &["--mode", "ask", "--allow", "bash", "--allow", "Edit(f)"], command);
        let is_known = !["PATH=.", "> $f"].contains(&command);
        assert_eq!(said["action"], if is_known { "allow" } else { "ask" }, "{command}: {said}");
    }
    let said = check(&stage, &["--mode", "ask"], "touch a; x=1 > f");
    assert_eq!(said["always"], json!(["bash(touch *)", "Edit(./f)"]), "{said}");
}
