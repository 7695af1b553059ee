//! Permission rules in the program: where they come from, what older configuration means, and what of them the audit shows.

use crate::permission::check;
use crate::stage::Stage;
use serde_json::json;

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
