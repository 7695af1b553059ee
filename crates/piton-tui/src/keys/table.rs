//! The table: every thing that a key can do, what it is called in `keys.toml`, and the keys that do it by default.
//! `docs/keys.md` is made of it.

use super::{Context, chord::Chord};

/// One action with its default keys, in the order of [`Context::ALL`]; keys are separated by blanks.
pub(super) struct Row {
    pub(super) action: Action,
    /// What `keys.toml` calls it.
    pub(super) name: &'static str,
    pub(super) does: &'static str,
    keys: [&'static str; 4],
}

impl Row {
    /// Its default keys here.
    pub(super) fn chords(&self, context: Context) -> impl Iterator<Item = Chord> {
        self.keys[context as usize].split_whitespace().filter_map(Chord::parse)
    }

    /// The same as they are written.
    #[cfg(test)]
    pub(super) fn words(&self, context: Context) -> Vec<&'static str> {
        self.keys[context as usize].split_whitespace().collect()
    }
}

macro_rules! actions {
    ($($action:ident $name:literal $does:literal [$prompt:literal $question:literal $list:literal $pager:literal])*) => {
        /// What a key does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Action {
            /// Types this character.
            Insert(char),
            /// Escape and this character, in the style of vi.
            Alt(char),
            $(#[doc = $does] $action,)*
        }

        pub(super) const ROWS: &[Row] = &[
            $(Row { action: Action::$action, name: $name, does: $does, keys: [$prompt, $question, $list, $pager] },)*
        ];
    };
}

// Action, name, what it does; keys in the prompt, in a question, in a list, on a page.
actions! {
    Send "send" "Sends the prompt; while the agent works, it reads it at its next step. In a list: chooses"
        ["Enter" "Enter" "Enter" "Enter"]
    FollowUp "follow-up" "Sends the prompt as a turn of its own, after the one that runs"
        ["Alt-Enter" "" "" ""]
    NewLine "new-line" "Begins a new line; so does Enter behind a backslash"
        ["Shift-Enter Ctrl-J" "" "" ""]
    TakeBack "take-back" "Takes the last waiting message back into the prompt"
        ["Alt-Up" "" "" ""]
    Escape "escape" "Closes what is open, or stops the turn; twice in an empty prompt: the rewind tree"
        ["Esc" "Esc" "Esc" "Esc q"]
    Interrupt "interrupt" "Clears the prompt; in an empty one, twice: leaves"
        ["Ctrl-C" "Ctrl-C" "Ctrl-C" "Ctrl-C"]
    Leave "leave" "Leaves; in a prompt with text: deletes the character under the cursor"
        ["Ctrl-D" "" "" ""]
    Suspend "suspend" "Gives the terminal back to the shell until `fg`"
        ["Ctrl-Z" "Ctrl-Z" "Ctrl-Z" "Ctrl-Z"]
    CycleMode "cycle-mode" "Next mode: ask, accept edits, plan, auto"
        ["Shift-Tab" "Shift-Tab" "" ""]
    Complete "complete" "Completes; in a question: adds words to the answer"
        ["Tab" "Tab" "Tab" ""]
    Details "details" "Shows the last call whole; again: the transcript"
        ["Ctrl-O" "Ctrl-O" "Ctrl-O" "Ctrl-O"]
    Panel "panel" "Shows or hides the panel of todos and agents"
        ["Ctrl-T" "Ctrl-T" "Ctrl-T" "Ctrl-T"]
    HistorySearch "history-search" "Searches the history; again: this session, this folder, all"
        ["Ctrl-R" "" "Ctrl-R" ""]
    ExternalEditor "external-editor" "Opens the prompt in your editor"
        ["Ctrl-G" "Ctrl-G" "" ""]
    PasteClipboard "paste-clipboard" "Pastes text, files or a picture from the clipboard"
        ["Ctrl-V" "" "Ctrl-V" ""]
    Background "background" "Sends what runs to the background"
        ["Ctrl-B" "" "" ""]
    Redraw "redraw" "Draws the screen anew"
        ["Ctrl-L" "Ctrl-L" "Ctrl-L" "Ctrl-L"]
    Help "help" "Shows the keys; in an empty prompt ? does it too"
        ["F1" "F1" "F1" "F1 ?"]
    Rename "rename" "Renames what is chosen"
        ["" "" "F2 Ctrl-E" ""]
    Trash "trash" "Moves what is chosen to the trash"
        ["" "" "Ctrl-X" ""]
    Up "up" "Line up; at the first line of the prompt: the history"
        ["Up Ctrl-P" "Up Ctrl-P" "Up Ctrl-P Ctrl-K" "Up k Ctrl-P"]
    Down "down" "Line down; at the last line of the prompt: the history"
        ["Down Ctrl-N" "Down Ctrl-N" "Down Ctrl-N Ctrl-J" "Down j Ctrl-N"]
    PageUp "page-up" "Page up"
        ["PageUp" "PageUp" "PageUp" "PageUp b Ctrl-B Ctrl-U"]
    PageDown "page-down" "Page down"
        ["PageDown" "PageDown" "PageDown" "PageDown Space f Ctrl-F Ctrl-D"]
    Left "left" "Character left"
        ["Left" "Left" "Left" "Left h"]
    Right "right" "Character right"
        ["Right Ctrl-F" "Right" "Right Ctrl-F" "Right l"]
    WordLeft "word-left" "Word left"
        ["Ctrl-Left Alt-Left Alt-B" "" "Ctrl-Left Alt-Left Alt-B" ""]
    WordRight "word-right" "Word right"
        ["Ctrl-Right Alt-Right Alt-F" "" "Ctrl-Right Alt-Right Alt-F" ""]
    Home "home" "Beginning of the line"
        ["Home Ctrl-A" "" "Home Ctrl-A" ""]
    End "end" "End of the line"
        ["End Ctrl-E" "" "End" ""]
    BufferStart "buffer-start" "Beginning of the text"
        ["Ctrl-Home Alt-<" "Home" "Ctrl-Home Alt-<" "Home g <"]
    BufferEnd "buffer-end" "End of the text"
        ["Ctrl-End Alt->" "End" "Ctrl-End Alt->" "End G >"]
    Backspace "backspace" "Deletes the character before the cursor"
        ["Backspace Ctrl-H" "Backspace Ctrl-H" "Backspace Ctrl-H" "Backspace"]
    Delete "delete" "Deletes the character under the cursor"
        ["Delete" "" "Delete Ctrl-D" ""]
    KillWord "kill-word" "Kills the word before the cursor"
        ["Alt-Backspace Ctrl-Backspace" "" "Alt-Backspace Ctrl-Backspace" ""]
    KillToBlank "kill-to-blank" "Kills back to the blank before the cursor"
        ["Ctrl-W" "" "Ctrl-W" ""]
    KillWordForward "kill-word-forward" "Kills the word behind the cursor"
        ["Alt-D Alt-Delete Ctrl-Delete" "" "Alt-D Alt-Delete Ctrl-Delete" ""]
    KillToEnd "kill-to-end" "Kills to the end of the line"
        ["Ctrl-K" "" "" ""]
    KillToStart "kill-to-start" "Kills to the beginning of the line"
        ["Ctrl-U" "" "Ctrl-U" ""]
    Yank "yank" "Puts back what was killed"
        ["Ctrl-Y" "" "Ctrl-Y" ""]
    YankPop "yank-pop" "After that: what was killed before, in its place"
        ["Alt-Y" "" "Alt-Y" ""]
    Undo "undo" "Undoes the last change of the text"
        ["Ctrl-/" "" "Ctrl-/" ""]
    Redo "redo" "Does it again"
        ["Alt-/ Ctrl-Shift-Z" "" "Alt-/" ""]
    Transpose "transpose" "Swaps the characters around the cursor"
        ["Alt-T" "" "" ""]
}

#[cfg(test)]
const PAGE: &str = "\
<!-- Made of the table in crates/piton-tui/src/keys/table.rs: UPDATE_EXPECT=1 cargo nextest run -p piton-tui the_page -->

# Keys

What is not listed types a character, or does nothing. In a question `y`, `a`, `e` and `n` answer; on a page `/` searches
and `{` and `}` jump.

To change keys, write `keys.toml` beside `config.toml`. Each line names an action and its keys, which replace the
defaults; an empty list leaves the action without a key. Lines before the first heading hold wherever the action has a
key; lines below `[prompt]`, `[question]`, `[list]` or `[pager]` hold there only.

```toml
style = \"vi\"                     # or \"emacs\", the default
send = \"Ctrl-Enter\"
new-line = [\"Enter\", \"Ctrl-J\"]

[pager]
page-down = \"Space\"
```

A key is a character or a name (`Enter`, `Esc`, `Tab`, `Space`, `Backspace`, `Delete`, `Insert`, `Up`, `Down`, `Left`,
`Right`, `Home`, `End`, `PageUp`, `PageDown`, `F1` to `F35`) behind `Ctrl-`, `Alt-`, `Shift-` or `Super-`. Not every
terminal sends every key: Shift-Enter and Ctrl with Shift need the Kitty protocol. Ctrl-I is Tab, Ctrl-M is Enter, and
Ctrl-[ is Esc. A mistake in the file and a key that is given twice are named at the start; the default stays in force.

## vi

The prompt begins in insert mode, where the keys below hold; Esc leads to normal mode. There are:

- motions: `h j k l w W b B e E 0 ^ $ f F t T ; , gg G`, with counts;
- operators: `d c y`, doubled for lines, with motions and text objects: `iw aw iW aW`, and `i` or `a` with a quote or
  bracket;
- changes: `x X s S D C r ~ J p P i a I A o O u` and `.`, and Ctrl-R for redo;
- `v` and `V`, there also `o`.

`k` and `j` in the first and last row walk the history. A letter with Alt is Esc and the letter.

## All keys

";

/// `docs/keys.md`.
#[cfg(test)]
pub(super) fn page() -> String {
    let cell = |row: &Row, context| {
        let keys: Vec<_> = row.chords(context).map(|chord| format!("`{chord}`")).collect();
        keys.join(" ")
    };
    let mut page =
        format!("{PAGE}| action | what it does | prompt | question | list | page |\n|---|---|---|---|---|---|\n");
    for row in ROWS {
        let keys: Vec<_> = Context::ALL.into_iter().map(|context| cell(row, context)).collect();
        page += &format!("| `{}` | {} | {} |\n", row.name, row.does, keys.join(" | "));
    }
    page
}
