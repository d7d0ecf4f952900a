//! Rows in, events out: what is taken, what is refused, and what is never taken twice.

use super::*;
use crate::domain::{
    event::{Data, Event},
    time::Timestamp,
};

const MAP: &str = r#"
[time]
format = "seconds"
epoch = "2026-01-01T00:00:00Z"
[columns]
name = "name"
group = "qos"
start = "start"
stop = "stop"
[models]
gpu = "spec"
[resources]
cpu = { columns = ["cpu"], unit = "m" }
"nvidia.com/gpu" = { columns = ["gpus", "share"], unit = "m" }
"#;
const HEAD: &str = "name,cpu,gpus,share,spec,qos,start,stop\n";

fn rows(text: &[u8]) -> Rows<&[u8]> {
    Rows::open(text, Map::parse(MAP).unwrap()).unwrap()
}

/// Every event of a file, and every refusal; `importer` remembers.
fn import(importer: &mut Importer, body: &str) -> (Vec<Event<'static>>, Vec<String>) {
    let (mut events, mut refused) = (Vec::new(), Vec::new());
    for row in rows(format!("{HEAD}{body}").as_bytes()) {
        match row.unwrap() {
            Ok(row) => match importer.take(&row, Timestamp::MAX) {
                Ok(new) => events.extend(new),
                Err(e) => refused.push(e.to_string()),
            },
            Err(e) => {
                importer.reject();
                refused.push(e.to_string());
            }
        }
    }
    (events, refused)
}

fn once(body: &str) -> (Vec<Event<'static>>, Vec<String>) {
    import(&mut Importer::new("openb"), body)
}

#[test]
fn a_row_is_a_start_and_a_stop() {
    let (events, refused) = once("a,1500,2,1000,A30,LS,10,20\n");
    assert!(refused.is_empty());
    let lines: Vec<_> =
        events.iter().map(|e| (e.time.to_string(), &*e.source, &*e.subject)).collect();
    assert_eq!(
        lines,
        [
            ("2026-01-01T00:00:10.000Z".to_owned(), "/imports/openb", "pods//a"),
            ("2026-01-01T00:00:20.000Z".to_owned(), "/imports/openb", "pods//a"),
        ]
    );
    let data: Vec<_> = events.iter().map(|e| serde_json::to_value(&e.data).unwrap()).collect();
    assert_eq!(
        data[0],
        serde_json::json!({
            "uid": "a", "group": "LS", "models": {"gpu": "A30"}, "node": "", "basis": "Imported",
            "held": {"requests": {"cpu": "1500m"}, "limits": {"nvidia.com/gpu": "2"}},
        })
    );
    assert_eq!(data[1]["earliest"], data[1]["latest"]);
    assert_ne!(events[0].id, events[1].id);
}

#[test]
fn what_never_ran_appends_nothing_and_what_runs_has_no_stop() {
    let mut importer = Importer::new("openb");
    let (events, refused) = import(&mut importer, "a,x,,,,,,20\nb,1000,0,1000,,LS,5,\n");
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(events.len(), 1);
    let Data::PodStarted(pod) = &events[0].data else { panic!("{events:?}") };
    assert!(pod.held.limits.is_empty(), "no GPU is listed where there is none");
    let counts = importer.counts();
    assert_eq!((counts.rows, counts.never_ran, counts.started, counts.running), (2, 1, 1, 1));
}

#[test]
fn a_row_is_named_by_its_line_however_lines_end() {
    // A good row, an empty line, a bad row of two lines, and two more.
    let body =
        ["a,1,0,1,,q,1,2", "", "b,x,0,1,,\"q", "r\",1,2", "c,x,0,1,,q,1,2", "d,x,0,1,,q,1,2"];
    let endings: [fn(usize) -> &'static str; 3] =
        [|_| "\n", |_| "\r\n", |n| if n % 2 == 0 { "\r\n" } else { "\n" }];
    for ending in endings {
        let mut text = HEAD.trim_end().to_owned() + ending(0);
        let padding = "p,1,0,1,,q,1,2".to_owned();
        // Behind more than a reader takes at once.
        let before = 10_000;
        for n in 0..before {
            text += &(padding.clone() + ending(n));
        }
        for (n, line) in body.iter().enumerate() {
            text += line;
            // The last line may have no end.
            text += if n + 1 < body.len() { ending(n) } else { "" };
        }
        let refused = rows(text.as_bytes()).filter_map(|row| row.unwrap().err());
        let lines: Vec<_> = refused.map(|refused| refused.line as usize - before).collect();
        assert_eq!(lines, [4, 6, 7], "{:?}", ending(0));
    }
}

#[test]
fn each_bad_row_says_why_and_hinders_no_other() {
    let body = "a,1500,2,1000,,LS,20,10\n\
                b,-1,0,0,,LS,1,2\n\
                c,1e3,0,0,,LS,1,2\n\
                ,1,0,0,,LS,1,2\n\
                d,1,0,0,,LS,soon,2\n\
                e,1,0,0,,LS,1\n\
                f,1,0,0,,LS,99999999999,2\n\
                g,1,0,0,,\"L\nS\",1,2\n\
                h,,0,0,,LS,1,2\n\
                \n\
                i,1,0,0,,LS,1,2\n";
    let (events, refused) = once(body);
    assert_eq!(events.len(), 2, "the good one is kept");
    let told = [
        ("line 2: ", "before its start"),
        ("line 3: column `cpu`", "negative"),
        ("line 4: column `cpu`", "no number"),
        ("line 5: column `name`", "identity"),
        ("line 6: column `start`", "`soon` is no number"),
        ("line 7: ", "7 cells under a header of 8"),
        ("line 8: column `start`", "outside"),
        ("line 9: column `qos`", "control characters"),
        ("line 11: column `cpu`", "empty"),
    ];
    assert_eq!(refused.len(), told.len(), "{refused:#?}");
    for (refused, (place, why)) in refused.iter().zip(told) {
        assert!(refused.starts_with(place) && refused.contains(why), "{refused}");
    }
}

#[test]
fn one_name_with_two_contents_is_refused_and_a_plain_repetition_is_not() {
    let mut importer = Importer::new("openb");
    let body = "a,1,0,0,,LS,1,2\na,1,0,0,,LS,1,2\na,2,0,0,,LS,1,2\na,1,0,0,,LS,1,3\n\
                a,1,0,0,,LS,0,2\na,1,0,0,,LS,1,\na,1,0,0,,LS,,\n";
    let (events, refused) = import(&mut importer, body);
    assert_eq!((events.len(), importer.counts().repeated), (2, 1));
    let what = ["content", "stop", "start", "stop", "start"];
    assert_eq!(refused.len(), what.len(), "{refused:#?}");
    for (refused, what) in refused.iter().zip(what) {
        assert!(refused.contains("stands in line 3") && refused.contains(what), "{refused}");
    }
}

#[test]
fn the_same_file_again_appends_nothing_and_a_later_export_only_what_is_new() {
    let (first, _) = once("a,1,0,0,,LS,1,2\nb,1,0,0,,LS,1,\n");
    let mut again = Importer::new("openb");
    first.iter().for_each(|event| again.learn(event));
    let (events, refused) = import(&mut again, "a,1,0,0,,LS,1,2\nb,1,0,0,,LS,1,\n");
    assert_eq!((events.len(), refused.len(), again.counts().known), (0, 0, 2));

    let mut later = Importer::new("openb");
    first.iter().for_each(|event| later.learn(event));
    let (events, refused) =
        import(&mut later, "a,1,0,0,,LS,1,\nb,1,0,0,,LS,1,9\nc,1,0,0,,LS,8,9\n");
    assert_eq!((events.len(), refused.len()), (3, 0), "an older row of `a` is no contradiction");

    let mut other = Importer::new("openb");
    first.iter().for_each(|event| other.learn(event));
    let (events, refused) = import(&mut other, "a,1,0,0,,LS,1,3\nb,1,0,0,,BE,1,\na,1,0,0,,LS,,\n");
    assert_eq!((events.len(), refused.len()), (0, 3));
    assert!(refused.iter().all(|r| r.contains("was imported before")), "{refused:#?}");

    let mut elsewhere = Importer::new("other");
    first.iter().for_each(|event| elsewhere.learn(event));
    assert_eq!(import(&mut elsewhere, "a,2,0,0,,LS,1,2\n").0.len(), 2, "another cluster's name");
}

#[test]
fn a_choice_of_models_is_counted_where_there_is_something_to_type() {
    let mut importer = Importer::new("openb");
    import(
        &mut importer,
        "a,1,1,500,V100|T4,LS,1,2\nb,1,0,0,V100|T4,LS,1,2\nc,1,1,500,T4,LS,1,2\n",
    );
    let counts = importer.counts();
    assert_eq!(counts.ambiguous, 1);
    assert_eq!(counts.ambiguous_texts.iter().collect::<Vec<_>>(), [(&"V100|T4".to_owned(), &1)]);
}

#[test]
fn a_header_that_does_not_fit_the_map_is_refused_before_any_row() {
    let open = |text: &[u8]| match Rows::open(text, Map::parse(MAP).unwrap()) {
        Ok(_) => panic!("{text:?} was taken"),
        Err(e) => e.to_string(),
    };
    assert!(open(b"").contains("empty"));
    let other = open(HEAD.replace(',', ";").as_bytes());
    assert!(other.contains("no column `name`") && other.contains("delimiter (now `,`)"), "{other}");
    assert!(open(HEAD.replace("cpu", "cpus").as_bytes()).contains("no column `cpu`"));
    assert!(
        open(HEAD.replace("stop", "stop,cpu").as_bytes()).contains("two columns are called `cpu`")
    );
    assert!(open(b"\x1f\x8b\x08\xff\n").contains("not UTF-8"));
    let bom = format!("\u{feff}{HEAD}a,1,0,0,,LS,1,2\n");
    assert!(rows(bom.as_bytes()).next().unwrap().unwrap().is_ok(), "a byte order mark is no name");
}

#[test]
fn invalid_text_is_one_rows_fault_and_an_endless_record_the_files() {
    let mut text = format!("{HEAD}a,1,0,0,,L").into_bytes();
    text.extend_from_slice(b"\xff,1,2\n");
    text.extend_from_slice(format!("{},1,0,0,,LS,1,2\n", "n".repeat(254)).as_bytes());
    text.extend_from_slice(b"b,1,0,0,,LS,1,2\n");
    let all: Vec<_> = rows(&text).map(Result::unwrap).collect();
    assert!(all[0].as_ref().unwrap_err().to_string().contains("not UTF-8"));
    assert!(all[1].as_ref().unwrap_err().to_string().contains("at most 253"));
    assert!(all[2].is_ok());

    let row = "a,1,0,0,,LS,1,2\n".repeat(200_000);
    let open = format!("{HEAD}\"{row}");
    let error = rows(open.as_bytes()).next().unwrap().unwrap_err();
    assert!(error.to_string().starts_with("line 2: the record is longer"), "{error}");
    assert_eq!(
        rows(format!("{HEAD}{row}").as_bytes()).count(),
        200_000,
        "the bound is a record's, not a file's"
    );
}
