//! What the table says, and what `keys.toml` makes of it.

use super::*;
use crossterm::event::KeyEventState;
use expect_test::{expect, expect_file};

/// Keys as a person writes them down: characters, and names in angle brackets, such as `abc<Ctrl-W><Enter>`.
pub(crate) fn events(keys: &str) -> Vec<KeyEvent> {
    let mut events = Vec::new();
    let mut rest = keys;
    while let Some(char) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|named| named.split_once('>'));
        match named.and_then(|(name, behind)| Some((Chord::parse(name)?, behind))) {
            Some((chord, behind)) => {
                events.push(chord.event());
                rest = behind;
            }
            None => {
                events.push(KeyEvent::new(KeyCode::Char(char), KeyModifiers::NONE));
                rest = &rest[char.len_utf8()..];
            }
        }
    }
    events
}

/// The rows of the table that have a key here: names and actions.
pub(crate) fn rows_of(context: Context) -> impl Iterator<Item = (&'static str, Action)> {
    table::ROWS.iter().filter(move |row| row.is_of(context)).map(|row| (row.name, row.action))
}

/// What `keys.toml` calls a context.
pub(crate) fn name_of(context: Context) -> &'static str {
    context.name()
}

fn prompt_action(key: KeyEvent) -> Option<Action> {
    Keys::default().action(Context::Prompt, key)
}

#[test]
fn a_key_is_known_however_the_terminal_says_it() {
    let (none, shift) = (KeyModifiers::NONE, KeyModifiers::SHIFT);
    let (control, alt) = (KeyModifiers::CONTROL, KeyModifiers::ALT);
    for (code, modifiers, action) in [
        (KeyCode::Char('c'), control, Some(Action::Interrupt)),
        (KeyCode::Char('C'), control, Some(Action::Interrupt)),
        (KeyCode::Char('C'), control | shift, Some(Action::Interrupt)),
        (KeyCode::Char('z'), control | shift, Some(Action::Redo)),
        (KeyCode::Char('Z'), control, Some(Action::Suspend)),
        (KeyCode::Enter, none, Some(Action::Send)),
        (KeyCode::Char('m'), control, Some(Action::Send)),
        (KeyCode::Enter, alt, Some(Action::FollowUp)),
        (KeyCode::Enter, shift, Some(Action::NewLine)),
        (KeyCode::Char('j'), control, Some(Action::NewLine)),
        (KeyCode::BackTab, shift, Some(Action::CycleMode)),
        (KeyCode::BackTab, none, Some(Action::CycleMode)),
        (KeyCode::Tab, shift, Some(Action::CycleMode)),
        (KeyCode::Tab, none, Some(Action::Complete)),
        (KeyCode::Char('i'), control, Some(Action::Complete)),
        (KeyCode::Char('['), control, Some(Action::Escape)),
        (KeyCode::Char('7'), control, Some(Action::Undo)),
        (KeyCode::Char('_'), control, Some(Action::Undo)),
        (KeyCode::Up, alt, Some(Action::TakeBack)),
        (KeyCode::Left, shift, Some(Action::Left)),
        (KeyCode::Char('B'), alt, Some(Action::WordLeft)),
        (KeyCode::Char('<'), alt | shift, Some(Action::BufferStart)),
        (KeyCode::Char('A'), shift, Some(Action::Insert('A'))),
        (KeyCode::Char('a'), shift, Some(Action::Insert('A'))),
        (KeyCode::Char('ß'), none, Some(Action::Insert('ß'))),
        (KeyCode::Char('{'), control | alt, Some(Action::Insert('{'))),
        (KeyCode::Char('ą'), control | alt, Some(Action::Insert('ą'))),
        (KeyCode::Char('q'), control | alt, None),
        (KeyCode::Char('x'), alt, None),
        (KeyCode::Char('x'), KeyModifiers::SUPER, None),
        (KeyCode::CapsLock, none, None),
    ] {
        assert_eq!(prompt_action(KeyEvent::new(code, modifiers)), action, "{code:?} {modifiers:?}");
    }
}

#[test]
fn a_released_key_does_nothing_and_a_held_one_repeats() {
    let key = |kind| KeyEvent { code: KeyCode::Enter, modifiers: KeyModifiers::NONE, kind, state: KeyEventState::NONE };
    assert_eq!(prompt_action(key(KeyEventKind::Release)), None);
    assert_eq!(prompt_action(key(KeyEventKind::Repeat)), Some(Action::Send));
}

#[test]
fn contexts_have_keys_of_their_own() {
    let keys = Keys::default();
    let letter = |char| KeyEvent::new(KeyCode::Char(char), KeyModifiers::NONE);
    assert_eq!(keys.action(Context::Pager, letter('j')), Some(Action::Down));
    assert_eq!(keys.action(Context::Pager, letter('G')), Some(Action::BufferEnd));
    assert_eq!(keys.action(Context::Pager, letter('/')), Some(Action::Insert('/')));
    assert_eq!(keys.action(Context::Question, letter('y')), Some(Action::Insert('y')));
    assert_eq!(keys.action(Context::List, events("<Ctrl-J>")[0]), Some(Action::Down));
}

#[test]
fn in_vi_a_letter_with_alt_is_escape_and_the_letter() {
    let keys = Keys::vi();
    assert_eq!(keys.action(Context::Prompt, events("<Alt-b>")[0]), Some(Action::Alt('b')));
    assert_eq!(keys.action(Context::Prompt, events("<Alt-Shift-b>")[0]), Some(Action::Alt('B')));
    assert_eq!(keys.action(Context::Prompt, events("<Alt-Enter>")[0]), Some(Action::FollowUp));
    assert_eq!(keys.style(), Style::Vi);
    assert_eq!(keys.name_of(Action::WordLeft), "Ctrl-←");
    let (bound, mistakes) = Keys::read("style = \"vi\"\npanel = \"Alt-P\"");
    assert_eq!((bound.action(Context::Prompt, events("<Alt-p>")[0]), mistakes), (Some(Action::Panel), Vec::new()));
}

#[test]
fn hints_name_the_first_key() {
    let keys = Keys::default();
    assert_eq!(keys.name_of(Action::Details), "Ctrl-O");
    assert_eq!(keys.name_of(Action::TakeBack), "Alt-↑");
    assert_eq!(keys.name_of(Action::CycleMode), "Shift-Tab");
    assert_eq!(keys.name_of(Action::Trash), "Ctrl-X");
    assert_eq!(keys.name_of(Action::Insert('x')), "");
}

#[test]
fn no_key_is_bound_twice_and_every_default_is_a_key() {
    for row in table::ROWS {
        for context in Context::ALL {
            let keys = row.words(context);
            assert_eq!(keys.len(), row.chords(context).count(), "{}: {keys:?}", row.name);
        }
    }
    let bound = Keys::default().bound;
    for (at, one) in bound.iter().enumerate() {
        let twin = bound[..at].iter().find(|other| other.context == one.context && other.chord == one.chord);
        assert_eq!(twin, None, "{one:?}");
        assert!(!(one.context.takes_text() && one.chord.is_character()), "{one:?}");
        assert_eq!(Chord::parse(&one.chord.to_string()), Some(one.chord.clone()));
    }
}

#[test]
fn keys_toml_changes_keys_everywhere_or_in_one_place() {
    let (keys, mistakes) = Keys::read(
        r#"
        style = "vi"
        new-line = ["Enter", "ctrl+j"]
        send = "Ctrl-Enter"
        background = []
        [pager]
        page-down = "Space"
        "#,
    );
    assert_eq!(mistakes, [""; 0]);
    assert_eq!(keys.style(), Style::Vi);
    let action = |context, key| keys.action(context, events(key)[0]);
    assert_eq!(action(Context::Prompt, "<Enter>"), Some(Action::NewLine));
    assert_eq!(action(Context::Prompt, "<Ctrl-Enter>"), Some(Action::Send));
    assert_eq!(action(Context::List, "<Ctrl-Enter>"), Some(Action::Send));
    assert_eq!(action(Context::Prompt, "<Ctrl-B>"), None);
    assert_eq!(action(Context::Pager, "<Space>"), Some(Action::PageDown));
    assert_eq!(action(Context::Pager, "<PageDown>"), None);
    assert_eq!(action(Context::Prompt, "<PageDown>"), Some(Action::PageDown));
}

#[test]
fn mistakes_are_named_with_their_line_and_defaults_stay() {
    let (keys, mistakes) = Keys::read(
        r#"style = "nano"
details = "Ctrl-O Ctrl-P"
detials = "F3"
panel = "x"
send = []
yank = 3
undo = "Ctrl-K"
transpose = "Ctrl-K"
list = "F4"
[prompt]
redo = "Ctrl-R"
"#,
    );
    expect![[r#"
        line 1: the style is "emacs" or "vi"
        line 2: no key is called "Ctrl-O Ctrl-P"; "details" keeps its other keys, or its defaults
        line 3: no action is called "detials"; docs/keys.md lists them
        line 4: "x" alone types a character; bind it with Ctrl or Alt; "panel" keeps its other keys, or its defaults
        line 5: "send" needs a key; "send" keeps its other keys, or its defaults
        line 6: "yank" takes a key or a list of keys, such as ["Ctrl-X", "F5"]
        line 7: Ctrl-K is now "undo", and no longer "up" in the list
        line 7: Ctrl-K is now "undo", and "kill-to-end" has no key left in the prompt
        line 8: in the prompt Ctrl-K is "undo" already (line 7), so it is not "transpose"
        line 9: "list" is a table: [list]
        line 11: Ctrl-R is now "redo", and "history-search" has no key left in the prompt
    "#]]
    .assert_eq(&(mistakes.join("\n") + "\n"));
    for (action, name) in [
        (Action::Details, "Ctrl-O"),
        (Action::Panel, "Ctrl-T"),
        (Action::Send, "Enter"),
        (Action::Yank, "Ctrl-Y"),
        (Action::Undo, "Ctrl-K"),
        (Action::Transpose, "Alt-T"),
        (Action::Redo, "Ctrl-R"),
    ] {
        assert_eq!(keys.name_of(action), name);
    }
}

#[test]
fn a_file_that_is_not_toml_leaves_all_defaults() {
    let (keys, mistakes) = Keys::read("send = \n");
    assert_eq!(keys, Keys::default());
    assert_eq!(mistakes.len(), 1);
    assert!(mistakes[0].starts_with("line 1: not TOML"), "{mistakes:?}");
}

#[test]
fn random_files_and_keys_do_no_harm() {
    let mut random = fastrand::Rng::with_seed(17);
    let words = ["send", "=", "\"Ctrl-", "X\"", "[", "]", "\n", "pager", "style", "\"vi\"", "up", "-", "é", "{", "0"];
    for _ in 0..2_000 {
        let text: String = (0..random.usize(..20)).map(|_| words[random.usize(..words.len())]).collect();
        let (keys, _) = Keys::read(&text);
        let modifiers = KeyModifiers::from_bits_truncate(random.u8(..));
        let key = KeyEvent::new(KeyCode::Char(random.char(..)), modifiers);
        for context in Context::ALL {
            keys.action(context, key);
        }
    }
}

/// Renew it with `UPDATE_EXPECT=1 cargo nextest run -p piton-tui the_page`.
#[test]
fn the_page_of_the_docs_is_made_of_the_table() {
    expect_file!["../../../../docs/keys.md"].assert_eq(&table::page());
}
