//! Help pages whose paragraphs are as wide as the terminal. What stands behind the options is wrapped by whoever wrote it,
//! and would be wrapped once more, with single words on lines of their own.

use clap::{Command, builder::StyledStr};

/// The same command, with each paragraph behind its options, and behind those of its subcommands, on one line that clap
/// wraps.
#[must_use]
pub fn flowing(command: Command) -> Command {
    let command = match command.get_after_help().map(StyledStr::to_string) {
        Some(help) => command.after_help(joined(&help)),
        None => command,
    };
    command.mut_subcommands(flowing)
}

/// Joins the lines of paragraphs. A line that is indented, as examples are, and what ends with a colon stays alone.
fn joined(help: &str) -> String {
    let flows = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
    let mut text = String::with_capacity(help.len());
    let mut before = "";
    for line in help.lines() {
        if flows(before) && flows(line) {
            text.push(' ');
        } else if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
        before = line;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_and_examples_are_not() {
        let help = "Examples:\n  one \\\n      two\n  three\n\nA text\nthat goes on.\nAnd on.\n\nNext:\n- a\n- b";
        let said = "Examples:\n  one \\\n      two\n  three\n\nA text that goes on. And on.\n\nNext:\n- a - b";
        assert_eq!(joined(help), said);
        let command = Command::new("a").subcommand(Command::new("b").after_help("x\ny"));
        let flowing = flowing(command);
        let sub = flowing.get_subcommands().next().and_then(Command::get_after_help);
        assert_eq!(sub.map(ToString::to_string).as_deref(), Some("x y"));
    }
}
