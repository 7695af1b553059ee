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

    /// Whether it is done here by a key of its own.
    pub(super) fn is_of(&self, context: Context) -> bool {
        !self.keys[context as usize].is_empty()
    }

    /// The same as they are written.
    #[cfg(test)]
    pub(super) fn words(&self, context: Context) -> Vec<&'static str> {
        self.keys[context as usize].split_whitespace().collect()
    }
}

/// Whether an action is done here by a key of its own, unless `keys.toml` says otherwise.
pub(super) fn is_of(action: Action, context: Context) -> bool {
    ROWS.iter().any(|row| row.action == action && row.is_of(context))
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
    Send "send" "Sends the prompt; a working agent reads it at its next step. In a list: selects the row; in a question of the model: gives the marked or the default answer; on a page: line down"
        ["Enter" "Enter" "Enter" "Enter"]
    FollowUp "follow-up" "Sends the prompt as a turn of its own, after the running one"
        ["Alt-Enter" "" "" ""]
    NewLine "new-line" "Starts a new line; so does Enter after a backslash"
        ["Shift-Enter Ctrl-J" "" "" ""]
    TakeBack "take-back" "Moves the last queued message back into the prompt"
        ["Alt-Up" "" "" ""]
    Escape "escape" "Closes a list or page, or stops the turn; twice in an empty prompt: opens the rewind tree"
        ["Esc" "Esc" "Esc" "Esc q"]
    Interrupt "interrupt" "Clears the prompt; twice in an empty prompt: quits"
        ["Ctrl-C" "Ctrl-C" "Ctrl-C" "Ctrl-C"]
    Leave "leave" "Quits; in a prompt with text: deletes the character under the cursor"
        ["Ctrl-D" "" "" ""]
    Suspend "suspend" "Suspends Piton until `fg`"
        ["Ctrl-Z" "Ctrl-Z" "Ctrl-Z" "Ctrl-Z"]
    CycleMode "cycle-mode" "Switches to the next permission mode: ask, accept edits, plan, auto"
        ["Shift-Tab" "Shift-Tab" "" ""]
    Complete "complete" "Completes a name; in a question: says no, or answers, in your own words; in a list: next row"
        ["Tab" "Tab" "Tab" ""]
    Details "details" "Shows the running call, or else the last one, in full; again: the transcript. In a list of sessions or work: shows the selected row; closes a page"
        ["Ctrl-O" "Ctrl-O" "Ctrl-O" "Ctrl-O"]
    Panel "panel" "Shows or hides todos, subagents and background commands"
        ["Ctrl-T" "Ctrl-T" "Ctrl-T" ""]
    HistorySearch "history-search" "Searches the history; again: widens from this session to this folder to all. In a list of sessions: those of this folder, or of all"
        ["Ctrl-R" "" "Ctrl-R" ""]
    ExternalEditor "external-editor" "Opens the prompt in your editor"
        ["Ctrl-G" "Ctrl-G" "" ""]
    PasteClipboard "paste-clipboard" "Pastes text, files or a picture from the clipboard"
        ["Ctrl-V" "" "Ctrl-V" ""]
    Background "background" "Moves the running command to the background"
        ["Ctrl-B" "" "" ""]
    TypeInto "type-into" "Sends your keys to the running command that has a terminal; again, or Esc: no longer"
        ["Ctrl-\\" "" "" ""]
    Redraw "redraw" "Redraws the screen"
        ["Ctrl-L" "Ctrl-L" "Ctrl-L" "Ctrl-L"]
    Help "help" "Shows the keys, on a page those of pages; so does ? in an empty prompt"
        ["F1" "F1" "F1" "F1 ?"]
    Rename "rename" "Renames the selected session"
        ["" "" "F2 Ctrl-E" ""]
    Trash "trash" "Twice: moves the selected session to the trash, or stops the selected subagent or command"
        ["" "" "Ctrl-X" ""]
    Up "up" "Line up; in the first line of the prompt: previous prompt of the history"
        ["Up Ctrl-P" "" "Up Ctrl-P Ctrl-K" "Up k Ctrl-P"]
    Down "down" "Line down; in the last line of the prompt: next prompt of the history"
        ["Down Ctrl-N" "" "Down Ctrl-N Ctrl-J" "Down j Ctrl-N"]
    PageUp "page-up" "Page up; in the prompt: of the transcript, where Piton has the whole screen"
        ["PageUp" "" "PageUp" "PageUp b Ctrl-B Ctrl-U"]
    PageDown "page-down" "Page down; in the prompt: of the transcript, where Piton has the whole screen"
        ["PageDown" "" "PageDown" "PageDown Space f Ctrl-F Ctrl-D"]
    Left "left" "Character left"
        ["Left" "" "Left" ""]
    Right "right" "Character right"
        ["Right Ctrl-F" "" "Right Ctrl-F" ""]
    WordLeft "word-left" "Word left"
        ["Ctrl-Left Alt-Left Alt-B" "" "Ctrl-Left Alt-Left Alt-B" ""]
    WordRight "word-right" "Word right"
        ["Ctrl-Right Alt-Right Alt-F" "" "Ctrl-Right Alt-Right Alt-F" ""]
    Home "home" "Beginning of the line"
        ["Home Ctrl-A" "" "Home Ctrl-A" ""]
    End "end" "End of the line"
        ["End Ctrl-E" "" "End" ""]
    BufferStart "buffer-start" "Beginning of the text"
        ["Ctrl-Home Alt-<" "" "Ctrl-Home Alt-<" "Home g <"]
    BufferEnd "buffer-end" "End of the text"
        ["Ctrl-End Alt->" "" "Ctrl-End Alt->" "End G >"]
    Backspace "backspace" "Deletes the character before the cursor"
        ["Backspace Ctrl-H" "" "Backspace Ctrl-H" ""]
    Delete "delete" "Deletes the character under the cursor"
        ["Delete" "" "Delete Ctrl-D" ""]
    KillWord "kill-word" "Kills the word before the cursor"
        ["Alt-Backspace Ctrl-Backspace" "" "Alt-Backspace Ctrl-Backspace" ""]
    KillToBlank "kill-to-blank" "Kills back to the whitespace before the cursor"
        ["Ctrl-W" "" "Ctrl-W" ""]
    KillWordForward "kill-word-forward" "Kills the word after the cursor"
        ["Alt-D Alt-Delete Ctrl-Delete" "" "Alt-D Alt-Delete Ctrl-Delete" ""]
    KillToEnd "kill-to-end" "Kills to the end of the line"
        ["Ctrl-K" "" "" ""]
    KillToStart "kill-to-start" "Kills to the beginning of the line"
        ["Ctrl-U" "" "Ctrl-U" ""]
    Yank "yank" "Inserts the text that was killed last"
        ["Ctrl-Y" "" "Ctrl-Y" ""]
    YankPop "yank-pop" "Directly after `yank`: replaces it with the text killed before that"
        ["Alt-Y" "" "Alt-Y" ""]
    Undo "undo" "Undoes the last edit"
        ["Ctrl-/" "" "Ctrl-/" ""]
    Redo "redo" "Redoes the last undone edit"
        ["Alt-/ Ctrl-Shift-Z" "" "Alt-/" ""]
    Transpose "transpose" "Swaps the characters around the cursor"
        ["Alt-T" "" "" ""]
}

#[cfg(test)]
const PAGE: &str = "\
<!-- Made of the table in crates/piton-tui/src/keys/table.rs: UPDATE_EXPECT=1 cargo nextest run -p piton-tui the_page -->

# Keys

Any other key types its character or does nothing. A question stands above the prompt: `y`, `a`, `e` and `n` answer it, and
a key that has nothing in its column below is the prompt's. In a list, keys that edit a line edit what you type to narrow
it, or the new name of a session. On a page, `/` searches and `{` and `}` jump; the search is edited with the keys of a list.

To change keys, write `keys.toml` beside `config.toml`. Each line names an action and its keys, which replace the
defaults; an empty list leaves the action without a key. Lines before the first heading apply wherever the action has a
key; lines below `[prompt]`, `[question]`, `[list]` or `[pager]` apply only there.

```toml
style = \"vi\"                     # or \"emacs\", the default
send = \"Ctrl-Enter\"
new-line = [\"Enter\", \"Ctrl-J\"]

[pager]
page-down = \"Space\"
```

A key is a character or a name (`Enter`, `Esc`, `Tab`, `Space`, `Backspace`, `Delete`, `Insert`, `Up`, `Down`, `Left`,
`Right`, `Home`, `End`, `PageUp`, `PageDown`, `F1` to `F35`), with `Ctrl-`, `Alt-`, `Shift-` or `Super-` before it. Not
every terminal sends every key: Shift-Enter and Ctrl with Shift need the Kitty protocol. Ctrl-I is Tab, Ctrl-M is Enter,
and Ctrl-[ is Esc. At the start, Piton reports each mistake in the file and each key that is assigned twice.

## vi

The prompt starts in insert mode, where the keys below work; Esc switches to normal mode, which has:

- motions: `h j k l w W b B e E 0 ^ $ f F t T ; , gg G`, with counts;
- operators: `d c y`, doubled for lines, with motions and text objects: `iw aw iW aW`, and `i` or `a` with a quote or
  bracket;
- changes: `x X s S D C r ~ J p P i a I A o O u` and `.`, and Ctrl-R for redo;
- visual mode: `v` and `V`, and `o` in it.

`k` in the first row and `j` in the last row go through the history. Alt with a letter is Esc followed by the letter.

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
