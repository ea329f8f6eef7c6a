use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn menu() -> Menu {
    Menu::new(&Recent::default(), None, false)
}

fn press(menu: &mut Menu, keys: &[KeyCode]) -> Action {
    keys.iter().fold(Action::None, |_, &code| menu.key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn typed(menu: &mut Menu, text: &str) {
    for c in text.chars() {
        press(menu, &[KeyCode::Char(c)]);
    }
}

fn drawn(menu: &Menu, width: u16, height: u16, problem: Option<&str>) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| menu.draw(frame, problem)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = (0..height).map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>());
    rows.map(|row| row.trim_end().to_owned() + "\n").collect()
}

#[test]
fn enter_runs_the_selected_experiment_with_its_edited_parameters() {
    use KeyCode::{Backspace, Char, Down, Enter, Right};
    let mut menu = menu();
    let run = press(&mut menu, &[Down, Down, Right, Backspace, Backspace, Backspace]);
    assert_eq!(run, Action::None);
    typed(&mut menu, "2s");
    let Action::Run(words) = press(&mut menu, &[Enter]) else { panic!("nothing runs") };
    assert_eq!(words.join(" "), "wakeup -D 2s -i 1000 -p 80 -t 1");
    // A letter in a field is text, in the list a command.
    assert_eq!(press(&mut menu, &[Char('q')]), Action::None);
    assert!(menu.words().join(" ").contains("-D 2sq"));
    assert_eq!(press(&mut menu, &[KeyCode::Esc, Char('q')]), Action::Leave);
}

/// In a directory without results: each experiment runs, or says what it needs and goes to that field.
#[test]
fn an_experiment_that_needs_something_does_not_run_without_it() {
    use KeyCode::{Down, Enter};
    let mut menu = menu();
    let mut lacking = Vec::new();
    for (n, experiment) in EXPERIMENTS.iter().enumerate() {
        if press(&mut menu, &[Enter]) == Action::None {
            let Focus::Field(field) = menu.focus else { panic!("{}", experiment.title) };
            let label = menu.parameter(field).unwrap().label;
            let screen = drawn(&menu, 80, 40, None);
            assert!(screen.contains(&format!("Needs {label}: ")), "{screen}");
            lacking.push(experiment.title);
            typed(&mut menu, "one two");
            assert!(matches!(press(&mut menu, &[Enter]), Action::Run(_)), "{}", experiment.title);
            press(&mut menu, &[KeyCode::Esc]);
        }
        assert_eq!(menu.selected, n);
        press(&mut menu, &[Down]);
    }
    for title in ["Causes in a program", "Events as text", "Timers in a trace", "Compare two runs"]
    {
        assert!(lacking.contains(&title), "{title}: {lacking:?}");
    }
    assert!(!lacking.contains(&"Doctor") && lacking.len() < EXPERIMENTS.len() / 2, "{lacking:?}");
}

#[test]
fn a_choice_goes_round_and_a_target_is_in_front() {
    use KeyCode::{Char, Enter, Left, Right};
    let mut menu = menu();
    press(&mut menu, &[Right, Right]);
    assert_eq!(menu.words(), ["survey"]);
    press(&mut menu, &[Left]);
    assert_eq!(menu.words(), ["survey", "--quick"]);
    // A choice takes no text.
    typed(&mut menu, "x");
    assert_eq!(menu.words(), ["survey", "--quick"]);
    press(&mut menu, &[KeyCode::Esc, Char('t')]);
    typed(&mut menu, "vm:armv7-rt");
    let Action::Run(words) = press(&mut menu, &[Enter]) else { panic!("nothing runs") };
    assert_eq!(words.join(" "), "--on vm:armv7-rt survey --quick");
}

#[test]
fn the_ends_of_list_and_fields_hold() {
    use KeyCode::{Down, End, Home, PageDown, PageUp, Right, Up};
    let mut menu = menu();
    press(&mut menu, &[Up, PageUp]);
    assert_eq!(menu.selected, 0);
    for _ in 0..100 {
        press(&mut menu, &[Down, PageDown]);
    }
    assert_eq!(menu.selected, EXPERIMENTS.len() - 1);
    press(&mut menu, &[Home, End, Right]);
    for _ in 0..100 {
        press(&mut menu, &[Down]);
    }
    assert_eq!(menu.focus, Focus::Field(menu.fields() - 1));
    for _ in 0..100 {
        press(&mut menu, &[Up]);
    }
    assert!(menu.selected < EXPERIMENTS.len());
}

#[test]
fn new_results_fill_fields_that_were_not_edited() {
    let mut menu = menu();
    let now = Recent { runs: vec!["runs/b".into(), "runs/a".into()], trace: Some("t.dat".into()) };
    let report = menu.forms.iter().position(|f| f.experiment.title == "Show a run").unwrap();
    let text = menu.forms.iter().position(|f| f.experiment.title == "Events as text").unwrap();
    menu.forms[text].values[0] = "mine.dat".into();
    menu.refresh(&Recent::default(), &now);
    assert_eq!(menu.forms[report].values[0], "runs/b");
    assert_eq!(menu.forms[text].values[0], "mine.dat");
}

#[test]
fn the_screen_at_80_and_at_40_columns() {
    let mut menu = Menu::new(&Recent::default(), Some("Not available: tracing.".into()), false);
    press(&mut menu, &[KeyCode::Down, KeyCode::Down]);
    let wide = drawn(&menu, 80, 32, None);
    for shown in [
        "Wake-up latency",
        "How late does a periodic real-time task wake up?",
        "$ latlab wakeup -D 10s -i 1000 -p 80 -t 1",
        "Not available: tracing.",
        "Enter run",
    ] {
        assert!(wide.contains(shown), "{shown}: {wide}");
    }
    press(&mut menu, &[KeyCode::Right, KeyCode::Down]);
    let narrow = drawn(&menu, 40, 14, Some("error: not a number"));
    assert!(
        narrow.contains("error: not a number") && narrow.contains("$ latlab wakeup"),
        "{narrow}"
    );
    // No terminal is too small.
    for (width, height) in [(1, 1), (5, 3), (20, 5), (300, 2)] {
        drawn(&menu, width, height, None);
    }
}
