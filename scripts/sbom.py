"""Writes the components of one build of latlab as CycloneDX 1.5 (JSON), and the texts of their licences.

The crates are those of `cargo tree --prefix depth --format ' {p}|{f}'`, so exactly those of the build's
target and features; `cargo metadata` and Cargo.lock have their licences and checksums. The pages that the
program carries contain one more component, which is not a crate.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

LINE = re.compile(r"^(\d+) (\S+) v(\S+)[^|]*\|(\S*)")
LICENCE_FILE = re.compile(r"(?i)^(licen[cs]e|copying|copyright|notice|unlicense)")
TREE_OF_PAGES = "viewer/report/package-lock.json"
IN_PAGES = "uplot"


def read_tree(path):
    """Features of each crate and the crates that it uses, by (name, version); the first is latlab."""
    features, uses, stack = {}, {}, []
    for line in path.read_text().splitlines():
        found = LINE.match(line)
        if not found:
            sys.exit(f"error: {path}: '{line}' is no line of cargo tree")
        depth, crate = int(found[1]), (found[2], found[3])
        del stack[depth:]
        if stack:
            uses[stack[-1]].add(crate)
        stack.append(crate)
        uses.setdefault(crate, set())
        features.setdefault(crate, set()).update(filter(None, found[4].split(",")))
    return features, uses


def checksums(lock):
    """SHA-256 of each crate from a registry, by (name, version)."""
    packages = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .+\nchecksum = "(.+)"', lock)
    return {(name, version): digest for name, version, digest in packages}


def licence_texts(folder):
    """Of the crate, and of the C library that is in one of its folders."""
    found = [*folder.glob("*"), *folder.glob("*/*")]
    files = sorted(f for f in found if f.is_file() and LICENCE_FILE.match(f.name))
    return [f.read_text(errors="replace").strip() + "\n" for f in files]


def component(crate, package, features, digest):
    name, version = crate
    found = {
        "type": "library",
        "bom-ref": f"pkg:cargo/{name}@{version}",
        "name": name,
        "version": version,
        "description": package["description"] or "",
        # "/" is Cargo's old spelling of OR.
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "purl": f"pkg:cargo/{name}@{version}",
        "properties": [{"name": "cargo:features", "value": ",".join(sorted(features))}],
    }
    if digest:
        found["hashes"] = [{"alg": "SHA-256", "content": digest}]
    return found


def page_component():
    lock = json.loads(pathlib.Path(TREE_OF_PAGES).read_text())
    found = lock["packages"][f"node_modules/{IN_PAGES}"]
    purl = f"pkg:npm/{IN_PAGES}@{found['version']}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": IN_PAGES,
        "version": found["version"],
        "licenses": [{"expression": found["license"]}],
        "purl": purl,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--licences", type=pathlib.Path, required=True)
    args = parser.parse_args()

    features, uses = read_tree(args.tree)
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {(p["name"], p["version"]): p for p in metadata["packages"]}
    digests = checksums(pathlib.Path("Cargo.lock").read_text())

    root, *crates = features
    reference = {c: f"pkg:cargo/{c[0]}@{c[1]}" for c in features}
    components = [component(c, packages[c], features[c], digests.get(c)) for c in sorted(crates)]
    components.append(page_component())
    main_component = component(root, packages[root], features[root], None)
    main_component |= {"type": "application", "version": args.version}
    used = {c: sorted(reference[u] for u in uses[c]) for c in sorted(uses)}
    used[root].append(components[-1]["bom-ref"])
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": main_component,
            "properties": [{"name": "cargo:target", "value": args.target}],
        },
        "components": components,
        "dependencies": [{"ref": reference[c], "dependsOn": used[c]} for c in used],
    }
    # The same parts have the same number.
    digest = hashlib.sha256(json.dumps(bom, sort_keys=True).encode()).hexdigest()
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}"
    json.dump(bom, sys.stdout, indent=1, sort_keys=True)
    print()

    texts = {}
    for crate in sorted(crates):
        if crate not in digests:
            continue
        for text in licence_texts(pathlib.Path(packages[crate]["manifest_path"]).parent):
            texts.setdefault(text, []).append(" ".join(crate))
    with args.licences.open("w") as out:
        out.write("Licences of what latlab is built with. Each text is preceded by the crates that come with it.\n")
        for text, names in texts.items():
            out.write(f"\n{'=' * 78}\n{', '.join(dict.fromkeys(names))}\n\n{text}")


main()
