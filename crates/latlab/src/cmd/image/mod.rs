//! `latlab image`: builds, checks, starts and writes SD card images.

mod build_hooks;
mod fragment;
mod labgrid;
mod write;

pub use fragment::debian as debian_config;

use crate::cli::Global;
use crate::cli::image::{Build, ImageAction, ImageArgs};
use crate::cmd::vm::{cache, host, remove_folders, say};
use crate::outcome::{HintExt, Outcome, OwnHintExt};
use crate::term;
use anyhow::{Context, anyhow};
pub(in crate::cmd) use build_hooks::{BuildHooks, ended};
use fragment::flavour;
use latlab_image::Flavour;
use latlab_image::source::Purpose;
use latlab_image::{Manifest, NfsRoot, Request, board, boot, check, keys};
use latlab_model::control::JsonEscaped;
use latlab_sys::signal;
use latlab_target::Target;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs `latlab image`.
pub fn run(args: &ImageArgs, global: &Global) -> anyhow::Result<Outcome> {
    match &args.action {
        None => build(&args.build, global),
        Some(ImageAction::Boards) => boards(global),
        Some(ImageAction::Write { device, image, yes, fixed, no_grow, once, root }) => {
            if let Some(place) = device.to_str().filter(|d| d.starts_with("labgrid:")) {
                let Target::Labgrid(place) = Target::parse(place).with_hint()? else {
                    return Err(anyhow!("{place}: not a place of labgrid")).hint("labgrid:PLACE");
                };
                if *fixed || *no_grow {
                    return Err(anyhow!("{place}: --fixed and --no-grow have no effect there"))
                        .hint("leave them out: the card is written as the image is");
                }
                return labgrid::run(&place, image, *yes, once.as_deref());
            }
            if once.is_some() {
                return Err(anyhow!("--once: only with labgrid:PLACE")).hint("leave it out");
            }
            let options = write::WriteOptions { yes: *yes, fixed: *fixed, grow: !*no_grow };
            write::run(device, image, root, &options)
        }
        Some(ImageAction::Check { image, board }) => look(image, board.as_deref(), global),
        Some(ImageAction::Boot { image, ssh_port, firmware, smp }) => {
            let options =
                boot::Options { ssh_port: *ssh_port, firmware: firmware.as_deref(), smp: *smp };
            start(image, &options)
        }
        Some(ImageAction::Clean) => clean(),
    }
}

fn boards(global: &Global) -> anyhow::Result<Outcome> {
    let mut out = term::stdout();
    let boards = board::ours();
    if global.json {
        let rows: Vec<_> = boards
            .iter()
            .map(|b| json!({ "name": b.name, "arch": b.arch.name(), "about": b.about }))
            .collect();
        serde_json::to_writer_pretty(JsonEscaped(&mut out), &rows).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        for board in boards {
            writeln!(out, "{:<18} {:<8} {}", board.name, board.arch.name(), board.about)?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// `latlab image --board …`.
fn build(args: &Build, global: &Global) -> anyhow::Result<Outcome> {
    if let Some(file) = &args.from_config {
        return fragment::run(
            args.board.as_deref(),
            &args.kernel,
            file.as_deref(),
            args.offline,
            global,
        );
    }
    let name = args.board.as_deref().ok_or_else(|| anyhow!("--board is missing"));
    let name =
        name.hint("latlab image boards lists them: latlab image --board beaglebone-black")?;
    if args.show {
        return show(name);
    }
    let request = request(args, name)?;
    if args.plan {
        return plan(&request, global);
    }
    let cache = cache()?;
    let host = host(&cache)?;
    let began = Instant::now();
    let mut hooks = BuildHooks::new();
    let built = latlab_image::build(&host, &request, &mut hooks);
    drop(hooks);
    ended(built, |manifest| {
        report(&request, &manifest, began.elapsed().as_secs_f64(), global)?;
        Ok(Outcome::Done)
    })
}

fn show(name: &str) -> anyhow::Result<Outcome> {
    let text = match board::source(name) {
        Some(text) => text.to_owned(),
        None => {
            board::find(name).with_hint()?;
            std::fs::read_to_string(name).with_context(|| name.to_owned())?
        }
    };
    let mut out = term::stdout();
    write!(out, "{text}")?;
    out.flush()?;
    Ok(Outcome::Done)
}

fn request(args: &Build, name: &str) -> anyhow::Result<Request> {
    let board = board::find(name).with_hint()?;
    if let Some(host) = &args.hostname {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if host.is_empty() || host.len() > 63 || host.starts_with('-') || !host.chars().all(good) {
            return Err(anyhow!("--hostname {host:?}: not a host name"))
                .hint("letters, digits and -, at most 63");
        }
    }
    let package = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    if let Some(bad) =
        args.packages.iter().find(|p| p.is_empty() || p.starts_with('-') || !p.chars().all(package))
    {
        return Err(anyhow!("--package {bad:?}: not the name of a package"))
            .hint("apt-cache search finds packages");
    }
    let key = match &args.ssh_key {
        Some(file) => file.clone(),
        None => default_key()?,
    };
    Ok(Request {
        flavour: flavour(&args.kernel)?,
        build_u_boot: args.build_u_boot,
        build_kernel: args.build_kernel.as_deref().map(Purpose::parse).transpose().with_hint()?,
        keys: keys::read(&key).with_hint()?,
        hostname: args.hostname.clone(),
        serial_shell: args.serial_shell,
        packages: args.packages.clone(),
        epoch_s: epoch()?,
        offline: args.offline,
        output: args.output.clone().unwrap_or_else(|| {
            if args.nfs_root.is_some() { "netboot".into() } else { "sd.img".into() }
        }),
        nfs_root: args.nfs_root.as_deref().map(NfsRoot::parse).transpose().with_hint()?,
        board,
    })
}

/// `https://reproducible-builds.org/specs/source-date-epoch/`: seconds since 1970.
fn epoch() -> anyhow::Result<Option<u64>> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let number = text.to_str().and_then(|t| t.parse::<u32>().ok());
    let number =
        number.with_context(|| format!("SOURCE_DATE_EPOCH={}: not a time", text.display()));
    Ok(Some(u64::from(number.hint("seconds since 1970, as date +%s prints them")?)))
}

/// The first public key that ssh itself would offer.
fn default_key() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let names = ["id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub", "id_ed25519_sk.pub"];
    let found = names.iter().map(|n| home.join(".ssh").join(n)).find(|p| p.is_file());
    found
        .ok_or_else(|| {
            anyhow!("no public key in {}/.ssh: no login would be possible", home.display())
        })
        .hint("ssh-keygen -t ed25519 creates one; --ssh-key FILE names another")
}

fn plan(request: &Request, global: &Global) -> anyhow::Result<Outcome> {
    let board = &request.board;
    let packages = latlab_image::packages(request);
    let mut out = term::stdout();
    if global.json {
        let value = json!({
            "board": board.name,
            "arch": board.arch.name(),
            "kernel": format!("{:?}", request.flavour).to_lowercase(),
            "console": board.console,
            "boot": {
                "mib": board.boot.mib,
                "label": board.boot.label,
                "files": board.boot.file.iter().map(|f| json!({ "to": f.to, "package": f.package, "path": f.path })).collect::<Vec<_>>(),
                "texts": board.boot.text.iter().map(|t| &t.to).collect::<Vec<_>>(),
            },
            "packages": packages,
            "output": request.output,
        });
        serde_json::to_writer_pretty(JsonEscaped(&mut out), &value).map_err(io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
        return Ok(Outcome::Done);
    }
    writeln!(out, "{}: {}", board.name, board.about)?;
    let built = board.u_boot.as_ref().filter(|_| request.build_u_boot);
    let source = |package: &str| match built.filter(|u| u.package == package) {
        Some(u_boot) => format!("Debian's source of U-Boot ({})", u_boot.config),
        None => package.to_owned(),
    };
    for raw in &board.boot.raw {
        writeln!(out, "offset {}: {} of {}", raw.offset, raw.path, source(&raw.package))?;
    }
    writeln!(out, "partition 1, FAT32, active, {} MiB, {}:", board.boot.mib, board.boot.label)?;
    for file in &board.boot.file {
        writeln!(out, "  {:<24} {} of {}", file.to, file.path, source(&file.package))?;
    }
    for text in &board.boot.text {
        writeln!(out, "  {:<24} text", text.to)?;
    }
    writeln!(
        out,
        "  {:<24} {} ({}) for {}",
        "vmlinuz",
        match &request.build_kernel {
            Some(purpose) => format!("kernel from Debian's source for {}", purpose.name),
            None => "Debian's kernel".into(),
        },
        kernel_words(&request.flavour),
        board.arch.debian()
    )?;
    writeln!(out, "  {:<24} busybox and {}", "initrd.img", board.modules.join(", "))?;
    for tree in &board.device_trees {
        writeln!(out, "  {tree}")?;
    }
    writeln!(out, "partition 2, ext4: Debian {} with", board.arch.debian())?;
    writeln!(out, "  {}", packages.join(" "))?;
    writeln!(
        out,
        "  /usr/local/bin/latlab, console {}, root logs in with {}",
        board.console,
        key_words(request)
    )?;
    out.flush()?;
    Ok(Outcome::Done)
}

fn key_words(request: &Request) -> String {
    match request.keys.lines().count() {
        1 => "one key".into(),
        n => format!("any of {n} keys"),
    }
}

fn kernel_words(flavour: &Flavour) -> String {
    match flavour {
        Flavour::Rt => "PREEMPT_RT".into(),
        Flavour::Stock => "stock".into(),
        Flavour::Deb(file) => file.display().to_string(),
    }
}

fn report(
    request: &Request,
    manifest: &Manifest,
    seconds: f64,
    global: &Global,
) -> anyhow::Result<()> {
    let mut out = term::stdout();
    if global.json {
        serde_json::to_writer_pretty(JsonEscaped(&mut out), manifest).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(
            out,
            "{}: {}, Linux {}, {} MiB, {seconds:.0} s\nsha256 {}",
            request.output.display(),
            manifest.board,
            manifest.kernel,
            manifest.bytes >> 20,
            manifest.sha256
        )?;
    }
    out.flush()?;
    Ok(())
}

fn look(image: &Path, name: Option<&str>, global: &Global) -> anyhow::Result<Outcome> {
    let name = name.map(str::to_owned).or_else(|| built_for(image));
    let rom = match &name {
        Some(name) => board::find(name).with_hint()?.boot_rom,
        None => None,
    };
    let head = boot::head(image).with_hint()?;
    let checks = check::check(&head, rom);
    let mut out = term::stdout();
    if global.json {
        let rows: Vec<_> = checks
            .iter()
            .map(|c| json!({ "demand": c.demand, "found": c.found, "met": c.met }))
            .collect();
        serde_json::to_writer_pretty(JsonEscaped(&mut out), &rows).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        for check in &checks {
            let mark = if check.met { "✓" } else { "✗" };
            writeln!(out, "{mark} {}: {}", check.demand, check.found)?;
        }
    }
    out.flush()?;
    let unmet = checks.iter().filter(|c| !c.met).count();
    match unmet {
        0 => Ok(Outcome::Done),
        n => Err(anyhow!("{}: {n} of {} checks failed", image.display(), checks.len()))
            .hint("build the image again"),
    }
}

/// The board that `IMAGE.json` names.
fn built_for(image: &Path) -> Option<String> {
    let mut name = image.as_os_str().to_owned();
    name.push(".json");
    let text = std::fs::read(name).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(value["board"].as_str()?.to_owned()).filter(|n| board::find(n).is_ok())
}

fn start(image: &Path, options: &boot::Options<'_>) -> anyhow::Result<Outcome> {
    let cache = cache()?;
    let scratch = cache.scratch().with_hint()?;
    let mut command = boot::command(image, options, &scratch).with_hint()?;
    say(&format!("ssh -p {} root@127.0.0.1 once it is up; Ctrl-A X ends it", options.ssh_port));
    latlab_sys::process::tie_to_us(&mut command);
    let status = command.status().context("QEMU")?;
    if status.success() || signal::stop_requested().is_some() {
        return Ok(Outcome::Done);
    }
    Err(anyhow!("QEMU ended with {status}"))
        .hint("see its message above; check that the port is free")
}

fn clean() -> anyhow::Result<Outcome> {
    let cache = cache()?;
    let _lock = cache.lock("fetch").with_hint()?;
    remove_folders(&cache, &["roots", "own-kernels", "apt"])?;
    Ok(Outcome::Done)
}
