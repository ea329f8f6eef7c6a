#!/usr/bin/env python3
"""How long KernelShark takes to draw a trace under Xvfb, and the memory that takes.

Usage: view-kernelshark.py FILE [SECONDS]. The frame buffer of Xvfb is a file: it is looked at every 50 ms. The first
drawing is the moment from which the area of the graphs (left of the window's middle, upper half) shows at least a
thousand pixels with a colour of their own (no grey), and goes on doing so for a second.
"""
import mmap, os, signal, struct, subprocess, sys, tempfile, time

WIDTH, HEIGHT = 1600, 950

def head(buf):
    """Offset of the pixels and bytes per line of an XWD file (X11/XWDFile.h: big-endian words)."""
    words = struct.unpack(">25I", buf[:100])
    return words[0] + words[19] * 12, words[12]

def coloured(buf, at, line):
    n = 0
    for y in range(60, HEIGHT // 2, 4):
        row = buf[at + y * line: at + y * line + WIDTH * 4]
        for x in range(200, WIDTH - 50, 3):
            b, g, r = row[x * 4], row[x * 4 + 1], row[x * 4 + 2]
            if max(r, g, b) - min(r, g, b) > 60:
                n += 1
    return n

def status(pid):
    text = open(f"/proc/{pid}/status").read()
    return {k: int(text.split(k + ":")[1].split()[0]) // 1024 for k in ("VmHWM", "VmRSS")}

def main():
    path, patience = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 300
    with tempfile.TemporaryDirectory() as d:
        display = f":{90 + os.getpid() % 900}"
        server = subprocess.Popen(["Xvfb", display, "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-fbdir", d, "-nolisten", "tcp"], stderr=subprocess.DEVNULL)
        shark = None
        try:
            fb = os.path.join(d, "Xvfb_screen0")
            while not os.path.exists(fb) or os.path.getsize(fb) < WIDTH * HEIGHT * 4:
                time.sleep(0.05)
            time.sleep(0.5)
            env = dict(os.environ, DISPLAY=display, QT_QPA_PLATFORM="xcb", XDG_RUNTIME_DIR=d, HOME=d)
            # As root it asks first, and waits for an answer.
            other = {"user": "nobody"} if os.geteuid() == 0 else {}
            os.chmod(d, 0o777)
            begin = time.monotonic()
            shark = subprocess.Popen(["kernelshark", path], env=env, **other, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(fb, "rb") as f:
                buf = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
            at, line = head(buf)
            least, since, last = None, None, -1
            while time.monotonic() - begin < patience and shark.poll() is None:
                n, now = coloured(buf, at, line), time.monotonic() - begin
                if n != last:
                    print(f"  {now:6.2f} s: {n} coloured pixels looked at, {status(shark.pid)} MB", file=sys.stderr)
                    last = n
                if n >= 1000:
                    since = since or now
                    if now - since > 1:
                        least = since
                        break
                else:
                    since = None
                time.sleep(0.05)
            if least is None:
                print(f"KernelShark drew nothing in {time.monotonic() - begin:.0f} s (exit {shark.poll()})")
                return 1
            print(f"KernelShark: first drawing after {least:.1f} s, memory {status(shark.pid)} MB")
            return 0
        finally:
            for p in (shark, server):
                if p and p.poll() is None:
                    p.send_signal(signal.SIGTERM)
                    try:
                        p.wait(5)
                    except subprocess.TimeoutExpired:
                        p.kill()

sys.exit(main())
