//! Wording: tracing and kernel configuration.

use super::super::args::Args;
use super::super::message::Text;

pub fn tracefs(a: &Args<'_>) -> Text {
    let text = match (a.find("mount"), a.text("access")) {
        (Some(at), "read-write") => {
            return Text::claim(format!("tracefs mounted at {at}, tracing permitted"));
        }
        (Some(at), "read-only") => {
            Text::claim(format!("tracefs mounted at {at}, read-only for this user"))
        }
        (Some(at), _) => {
            Text::claim(format!("tracefs mounted at {at}, not accessible to this user"))
        }
        (None, _) if a.is("supported") => Text::claim("tracefs not mounted"),
        (None, _) if a.has("supported") => Text::claim("tracefs not supported by this kernel"),
        (None, _) => return Text::claim("Support for tracefs not readable"),
    };
    text.why("Without tracing the kernel activity behind a late wake-up is unknown.")
}

pub fn events(a: &Args<'_>) -> Text {
    match a.number("events") {
        None => Text::claim("Number of trace events not readable"),
        Some(0.0) => Text::claim("No trace events"),
        Some(_) => {
            Text::claim(a.count("events", "trace event available", "trace events available"))
        }
    }
}

pub fn tracers(a: &Args<'_>) -> Text {
    match a.find("missing") {
        None if a.has("available") => {
            Text::claim(format!("All latency tracers available: {}", a.get("available")))
        }
        None => Text::claim("List of tracers not readable"),
        Some(missing) => Text::claim(format!("Tracers not available: {missing}"))
            .why("Late wake-ups are analysed from events alone; activity without an event remains unexplained."),
    }
}

pub fn features(a: &Args<'_>) -> Text {
    match (a.number("available"), a.number("missing")) {
        (Some(_), Some(0.0)) => {
            Text::claim(format!("Tracing features available: {}", a.get("available")))
        }
        (Some(_), Some(_)) => {
            Text::claim(format!("Tracing features not available: {}", a.get("missing"))).why(
                "Without them recordings are larger and fewer places in the kernel can be traced.",
            )
        }
        _ => Text::claim("Tracing features not readable"),
    }
}

pub fn lockdown(a: &Args<'_>) -> Text {
    const DENIED: &str =
        "Denied operations fail with EPERM, for root too; events are not affected.";
    match a.text("mode") {
        "none" => Text::claim("Kernel lockdown: none"),
        "" if !a.has("function_tracing") => Text::claim("Kernel lockdown not readable"),
        "" if a.is("function_tracing") => Text::claim("Function tracing permitted (no lockdown)"),
        "" => Text::claim("Function tracing denied to root, probably by kernel lockdown").why(DENIED),
        "confidentiality" => Text::claim("Kernel lockdown: confidentiality").why(format!(
            "Denied: function tracing, kprobes, uprobes, BPF reads of kernel memory, perf registers, raw memory and port access, unsigned modules. {DENIED}"
        )),
        mode => Text::claim(format!("Kernel lockdown: {mode}")).why(format!(
            "Denied: unsigned modules, raw memory, port and MSR access, hibernation; on many kernels function tracing and kprobes too. {DENIED}"
        )),
    }
}

pub fn config_readable(a: &Args<'_>) -> Text {
    match a.find("source") {
        Some(source) => Text::claim(format!("Kernel configuration readable ({source})")),
        None => Text::claim("Kernel configuration not readable")
            .why("Missing options can only be inferred from missing features."),
    }
}

/// Debugging options, which are to be off.
pub fn config_debugging(a: &Args<'_>) -> Text {
    Text::claim(match a.find("needed").or_else(|| a.find("useful")) {
        Some(_) => {
            let options = [option_names(a, "needed"), option_names(a, "useful")];
            let all = options.into_iter().filter(|o| !o.is_empty()).collect::<Vec<_>>().join(", ");
            format!("Kernel debugging options enabled that slow the kernel down: {all}")
        }
        None => "No kernel debugging options enabled that slow the kernel down".to_owned(),
    })
}

fn option_names(a: &Args<'_>, key: &str) -> String {
    let all = a.list(key);
    all.iter().map(|o| o.trim_start_matches("CONFIG_")).collect::<Vec<_>>().join(", ")
}

/// The options of one purpose.
pub fn config(a: &Args<'_>, purpose: &str) -> Text {
    let names = |key: &str| option_names(a, key);
    Text::claim(if a.has("needed") {
        format!(
            "Kernel options required for {purpose} and not set as required: {}",
            names("needed")
        )
    } else if a.has("useful") {
        format!("Kernel options useful for {purpose} and not set accordingly: {}", names("useful"))
    } else if a.is("except_tracers") {
        format!("Kernel configuration complete for {purpose}, except for tracers")
    } else {
        format!("Kernel configuration complete for {purpose}")
    })
}
