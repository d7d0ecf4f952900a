//! Every help page of both programs, at several widths: no line of a text ends before it must.

use crate::shared;
use std::process::Command;

/// A page as a terminal of `width` columns shows it.
fn page(program: &str, command: &[String], width: usize) -> String {
    let mut shown = Command::new(program);
    shown.args(command).arg("--help").env("COLUMNS", width.to_string());
    let output = shown.output().unwrap();
    assert!(output.status.success(), "{program} {command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The subcommands that a page lists.
fn listed(page: &str) -> Vec<String> {
    let list = page.split_once("Commands:\n").map_or("", |(_, behind)| behind);
    let lines = list.lines().take_while(|line| !line.is_empty());
    // What goes on is indented further.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    let names = names.map(|line| line.split(' ').next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// Every page of a program, by its command.
fn pages(program: &str) -> Vec<Vec<String>> {
    let (mut pages, mut next) = (vec![Vec::new()], 0);
    while next < pages.len() {
        let command: Vec<String> = pages[next].clone();
        let below = listed(&page(program, &command, 100));
        pages.extend(below.into_iter().map(|name| [&command[..], &[name]].concat()));
        next += 1;
    }
    pages
}

/// The first line of a text whose next word would have fitted on it. Examples and lists are indented.
fn short_line(page: &str, width: usize) -> Option<&str> {
    let text = |line: &str| line.starts_with(char::is_alphabetic) && !line.ends_with(':');
    let lines: Vec<&str> = page.lines().collect();
    let short = lines.windows(2).find(|pair| {
        let [line, next] = pair else { return false };
        let word = next.split(' ').next().unwrap_or_default();
        let fits = line.chars().count() + 1 + word.chars().count() <= width;
        text(line) && text(next) && fits
    });
    short.map(|pair| pair[0])
}

#[test]
fn no_line_of_a_help_page_ends_before_it_must() {
    let replay = shared::replay("").unwrap();
    let programs = [env!("CARGO_BIN_EXE_bizrq"), replay.to_str().unwrap()];
    for (program, least) in programs.into_iter().zip([30, 9]) {
        let pages = pages(program);
        assert!(pages.len() >= least, "{program}: {pages:?}");
        for (command, width) in pages.iter().flat_map(|page| [80, 100, 120].map(|w| (page, w))) {
            let page = page(program, command, width);
            assert_eq!(short_line(&page, width), None, "{program} {command:?} at {width}:\n{page}");
        }
    }
    assert_eq!(short_line("A line\nthat goes on.\n", 80), Some("A line"), "it would be found");
}
