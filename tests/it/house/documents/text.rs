//! Documents as the checks see them: words in backticks, and lines of shell.

use crate::house::source::root;
use std::fs;

/// A document of the project.
pub(crate) struct Document {
    /// Its path from the project's root.
    pub(crate) path: &'static str,
    /// Its text.
    pub(crate) text: String,
}

/// Every document that people read.
pub(crate) fn documents() -> Vec<Document> {
    ["README.md", "CHANGELOG.md", "src/ARCHITECTURE.md"]
        .into_iter()
        .map(|path| Document { path, text: fs::read_to_string(root().join(path)).unwrap() })
        .collect()
}

impl Document {
    /// Where its paths may begin.
    pub(crate) fn folders(&self) -> &'static [&'static str] {
        if self.path.starts_with("src/") { &["", "src"] } else { &[""] }
    }

    /// The words in backticks, outside of blocks.
    pub(crate) fn spans(&self) -> Vec<String> {
        let prose: Vec<&str> =
            self.lines().filter(|(block, _)| block.is_none()).map(|l| l.1).collect();
        let prose = prose.join("\n");
        prose.split('`').skip(1).step_by(2).map(|s| s.replace('\n', " ")).collect()
    }

    /// The lines of blocks in `language`, block by block.
    pub(crate) fn blocks(&self, language: &str) -> Vec<Vec<&str>> {
        let mut blocks: Vec<Vec<&str>> = Vec::new();
        let mut inside = false;
        for (block, line) in self.lines() {
            let wanted = block == Some(language);
            if wanted && !inside {
                blocks.push(Vec::new());
            }
            // The opening fence itself comes first, as an empty line.
            if let Some(last) = blocks.last_mut().filter(|_| wanted && !line.is_empty()) {
                last.push(line);
            }
            inside = wanted;
        }
        blocks
    }

    /// What can be typed: lines of shell without their comments, and commands in backticks.
    pub(crate) fn commands(&self) -> Vec<String> {
        let shell = self.blocks("sh").into_iter().flatten().map(|l| without_comment(l).to_owned());
        let is_ours = |s: &String| {
            ["bizrq ", "bizrq-replay ", "make ", "cargo run "].iter().any(|c| s.starts_with(c))
        };
        shell.chain(self.spans()).flat_map(|l| parts(&l)).filter(is_ours).collect()
    }

    /// Lines with the language of the block that they stand in; fences are empty lines.
    fn lines(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let mut block = None;
        self.text.lines().map(move |line| {
            let Some(fence) = line.strip_prefix("```") else { return (block, line) };
            let was = block;
            block = if was.is_some() { None } else { Some(fence) };
            (was, "")
        })
    }
}

/// The commands among the lines of a help.
pub(crate) fn typed_lines(help: &str) -> Vec<String> {
    let lines =
        help.lines().filter(|l| l.starts_with("  ")).flat_map(|l| parts(without_comment(l)));
    lines.filter(|c| c.starts_with("bizrq")).collect()
}

/// A line of shell without what a person is told beside it.
pub(crate) fn without_comment(line: &str) -> &str {
    line.split(" #").next().unwrap_or(line).trim_end()
}

/// The commands of a pipe.
fn parts(line: &str) -> Vec<String> {
    line.split(" | ").map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_blocks_are_told_apart() {
        let text = "a `b c` d\n```sh\nbizrq x | bizrq y # z\n`no`\n```\n```sh\nmake e\n```\n`f`";
        let document = Document { path: "README.md", text: text.into() };
        assert_eq!(document.spans(), ["b c", "f"]);
        assert_eq!(document.blocks("sh"), [vec!["bizrq x | bizrq y # z", "`no`"], vec!["make e"]]);
        assert_eq!(document.commands(), ["bizrq x", "bizrq y", "make e"]);
    }
}
