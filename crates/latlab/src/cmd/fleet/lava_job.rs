//! A job of LAVA: the laboratory's own definition, with a test action behind its deploy and boot actions.
//!
//! The definition is text, and stays as it is: anchors, comments, and whatever a later LAVA adds. Only three of its
//! top-level keys are replaced, and a list item is added at the end of `actions`. What is added has its texts in the
//! double quotes that YAML and JSON have in common.

use latlab_analysis::fleet::campaign::{Campaign, LavaBoard, Line};
use serde_json::Value;

/// Most bytes of a job's name (LAVA's schema).
const NAME_BYTES: usize = 200;

/// Why a definition cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// No list of actions to add one to.
    #[error(
        "has no `actions:` with one action a line item (`- deploy:`) below it, at the left margin"
    )]
    NoActions,
}

/// The definition of a job that measures some experiments of one board.
///
/// `steps` are the commands of its test.
///
/// # Errors
/// When the template has no list of actions.
pub fn job(
    template: &str,
    campaign: &Campaign,
    board: &LavaBoard,
    lines: &[&Line],
    steps: &[String],
) -> Result<String, JobError> {
    let (mut text, end, indent) = (Vec::new(), end_of_actions(template)?, indent(template)?);
    let own = own_keys(campaign, board, lines);
    let mut skipped = false;
    for (number, line) in template.lines().enumerate() {
        let key = top_level_key(line);
        if let Some(key) = key {
            skipped = own.iter().any(|(name, _)| *name == key);
        }
        if key == Some("actions") {
            text.extend(own.iter().map(|(name, value)| format!("{name}: {value}")));
        }
        if !skipped || line.starts_with('#') {
            text.push(line.to_owned());
        }
        if number == end {
            text.extend(test(board, lines, steps).iter().map(|l| format!("{indent}{l}")));
        }
    }
    text.push(String::new());
    Ok(text.join("\n"))
}

/// Keys that are ours, with their values.
fn own_keys(c: &Campaign, board: &LavaBoard, lines: &[&Line]) -> Vec<(&'static str, Value)> {
    let place = lines.first().map(|l| l.place(" "));
    let mut name = format!("latlab {} {}", c.name, place.unwrap_or_default());
    name.truncate(NAME_BYTES);
    let mut keys = vec![("job_name", Value::from(name))];
    keys.extend(board.device_type.iter().map(|t| ("device_type", Value::from(t.as_str()))));
    if !board.tags.is_empty() {
        keys.push(("tags", Value::from(board.tags.clone())));
    }
    keys
}

/// The test action, a line an item.
fn test(board: &LavaBoard, lines: &[&Line], steps: &[String]) -> Vec<String> {
    // An experiment that does not say how long it takes has a minute; half as much again for reports and logs.
    let seconds: u64 = lines.iter().map(|l| if l.seconds == 0 { 60 } else { l.seconds }).sum();
    let minutes = (seconds + seconds / 2 + 120).div_ceil(60);
    let mut out = vec!["- test:".to_owned()];
    if !board.test.contains_key("timeout") {
        out.push(format!("    timeout: {{minutes: {minutes}}}"));
    }
    out.extend(
        board.test.iter().map(|(key, value)| format!("    {}: {value}", Value::from(key.as_str()))),
    );
    out.extend(
        [
            "    definitions:",
            "    - name: latlab",
            "      from: inline",
            "      path: inline/latlab.yaml",
            "      repository:",
            "        metadata:",
            "          format: Lava-Test Test Definition 1.0",
            "          name: latlab",
            "          description: latencies",
            "        run:",
            "          steps:",
        ]
        .map(str::to_owned),
    );
    out.extend(steps.iter().map(|s| format!("          - {}", Value::from(s.as_str()))));
    out
}

/// The key that begins at the left margin of a line.
fn top_level_key(line: &str) -> Option<&str> {
    if line.starts_with([' ', '\t', '#', '-', '.']) {
        return None;
    }
    Some(line.split_once(':')?.0.trim().trim_matches(['"', '\'']))
}

/// Whether a line belongs to the value above it.
fn is_within(line: &str) -> bool {
    line.starts_with([' ', '\t', '#'])
        || line.is_empty()
        || (line.starts_with('-') && line != "---")
}

/// Lines of the list of actions, with their numbers.
fn actions(template: &str) -> impl Iterator<Item = (usize, &str)> {
    let all = template.lines().enumerate();
    let from = all.skip_while(|(_, line)| {
        let value = line.split_once(':').map(|(_, v)| v.split('#').next().unwrap_or("").trim());
        top_level_key(line) != Some("actions") || value != Some("")
    });
    from.skip(1).take_while(|(_, line)| is_within(line))
}

/// Number of the last line of the list of actions.
fn end_of_actions(template: &str) -> Result<usize, JobError> {
    let content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let last = actions(template).filter(|(_, line)| content(line)).last();
    last.map(|(number, _)| number).ok_or(JobError::NoActions)
}

/// What is before the dash of an action.
fn indent(template: &str) -> Result<String, JobError> {
    let item = |line: &str| {
        let text = line.trim_start_matches(' ');
        (text == "-" || text.starts_with("- ")).then(|| " ".repeat(line.len() - text.len()))
    };
    actions(template).find_map(|(_, line)| item(line)).ok_or(JobError::NoActions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "---\n# of the lab\njob_name: whatever\ndevice_type: qemu\ntags:\n- old\n# kept\n\
        timeouts: {job: {minutes: 30}}\nactions:   # deploy and boot\n  - deploy: {to: ssh}\n  - boot:\n      method: ssh\n\n\
        # metadata follows\nmetadata:\n  a: b\n...\n";

    fn line() -> Line {
        Line {
            id: "bb1-wakeup-2-0a".into(),
            board: "bb1".into(),
            target: "lava:bb1".into(),
            kernel: None,
            experiment: "wakeup".into(),
            repetition: 2,
            command: vec!["wakeup".into()],
            seconds: 60,
            image: None,
            check: None,
            on_failure: Vec::new(),
        }
    }

    fn campaign(board: Value) -> Campaign {
        let mut lava = serde_json::json!({"job": "bb1.yaml"});
        lava.as_object_mut().unwrap().extend(board.as_object().unwrap().clone());
        serde_json::from_value(serde_json::json!({
            "name": "nightly", "board": [{"name": "bb1", "lava": lava}],
            "experiment": [{"name": "wakeup", "command": ["wakeup"]}],
        }))
        .unwrap()
    }

    fn made(template: &str, board: Value) -> Result<String, JobError> {
        let campaign = campaign(board);
        let lava = campaign.board[0].lava.as_ref().unwrap();
        job(template, &campaign, lava, &[&line()], &["echo \"a\"".into()])
    }

    #[test]
    fn the_test_is_the_last_action_and_the_rest_stays() {
        let text = made(TEMPLATE, serde_json::json!({"tags": ["bb1"]})).unwrap();
        let expected = "---\n# of the lab\ndevice_type: qemu\n# kept\ntimeouts: {job: {minutes: 30}}\n\
            job_name: \"latlab nightly bb1 2\"\ntags: [\"bb1\"]\nactions:   # deploy and boot\n  - deploy: {to: ssh}\n  - boot:\n      method: ssh\n  \
            - test:\n      timeout: {minutes: 4}\n      definitions:\n";
        assert!(text.starts_with(expected), "{text}");
        let end = "            steps:\n            - \"echo \\\"a\\\"\"\n\n# metadata follows\nmetadata:\n  a: b\n...\n";
        assert!(text.ends_with(end), "{text}");
        let test = serde_json::json!({"namespace": "dut", "timeout": {"minutes": 9}});
        let named = serde_json::json!({"device_type": "bbb", "test": test});
        let text = made(TEMPLATE, named).unwrap();
        assert!(text.contains("device_type: \"bbb\"\n") && !text.contains("qemu"), "{text}");
        assert!(text.contains(
            "  - test:\n      \"namespace\": \"dut\"\n      \"timeout\": {\"minutes\":9}\n"
        ));
    }

    #[test]
    fn actions_may_be_the_last_key_and_at_the_margin() {
        let text =
            made("actions:\n- deploy: {to: ssh}\n- boot: {method: ssh}", serde_json::json!({}))
                .unwrap();
        assert!(text.contains("\n- boot: {method: ssh}\n- test:\n    timeout:"), "{text}");
        for bad in ["", "actions: []\n", "job:\n  actions:\n  - a\n", "{\"actions\": []}"] {
            assert_eq!(made(bad, serde_json::json!({})), Err(JobError::NoActions), "{bad}");
        }
    }
}
