//! Any requests to the trace viewer, several for one trace: a line is a URL; a line that begins with `!` is
//! posted, with the next line as its body.
#![no_main]

use latlab_model::latency::{SystemContext, UserStacks};
use latlab_trace::TraceFile;
use latlab_view::api::{Door, Request, answer};
use latlab_view::{Input, View};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

const TOKEN: &str = "t";
const HOST: &str = "127.0.0.1:1";

fn view() -> &'static View<'static> {
    static VIEW: OnceLock<View<'static>> = OnceLock::new();
    VIEW.get_or_init(|| {
        let data = include_bytes!("../../fixtures/trace/events7-x86_64.dat");
        // For as long as the process lives.
        let file: &'static TraceFile<'static> =
            Box::leak(Box::new(TraceFile::parse(data).expect("fixture")));
        let input = Input {
            name: "events7-x86_64.dat".into(),
            file,
            offset: 0,
            stacks: UserStacks::default(),
        };
        let view = View::new("fuzz", vec![input], SystemContext::default(), false);
        view.read();
        view
    })
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let door = Door { port: 1, token: TOKEN.into(), report: Some("<main></main>".into()) };
    let mut lines = text.lines().take(20);
    while let Some(line) = lines.next() {
        let post = line.strip_prefix('!');
        let body = post.map_or("", |_| lines.next().unwrap_or_default()).replace('\u{1}', "\n");
        let url = format!("/{TOKEN}/{}", post.unwrap_or(line));
        let request = Request {
            post: post.is_some(),
            url: &url,
            host: HOST,
            body: body.as_bytes(),
            ..Request::default()
        };
        let reply = answer(view(), &door, &request);
        assert!(matches!(reply.status, 200 | 404 | 422), "{} for {url:?}", reply.status);
    }
});
