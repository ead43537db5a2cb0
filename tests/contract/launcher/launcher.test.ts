// SPDX-License-Identifier: Apache-2.0
// The launcher's PID 1 with real libvirt and a real guest, in a pod of a real containerd.
import { appendFileSync, readFileSync } from "node:fs";
import { eventually, type GuestConsole } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { makeGuestImage } from "../guest-image.ts";
import { LauncherBench, type LauncherPod } from "./pod.ts";

/** Making the images takes most of a minute, once. */
const IMAGES_MS = 300_000;

let bench: LauncherBench;
beforeAll(async () => {
  bench = await LauncherBench.open(makeGuestImage());
}, IMAGES_MS);
afterAll(async () => {
  await bench.close();
});

describe("a launcher with a running guest", () => {
  let pod: LauncherPod;
  let guest: GuestConsole;

  // A guest takes seconds to boot, so these tests share one in sequence.
  beforeAll(async () => {
    pod = await bench.launch();
    guest = await pod.boot();
  });
  afterAll(async () => {
    await pod.remove();
  });

  test("boots it as an unprivileged user, and the guest answers", async () => {
    const [qemu = 0] = pod.pids("qemu");
    const status = readFileSync(`/proc/${String(qemu)}/status`, "utf8");
    expect(status).toMatch(/^Uid:\s+107\s+107\s+107\s+107$/m);
    expect(status).toMatch(/^CapBnd:\s+0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
    expect(status).toMatch(/^Seccomp:\s+2$/m);
    expect(await guest.run("report")).toEqual({ code: 0, lines: ["nics 0"] });
    expect((await guest.run("address eth7 10.0.0.1/24")).code).toBe(1);
  });

  test("restarts libvirt when it dies, unnoticed by the guest", async () => {
    const [before = 0] = pod.pids("libvirtd");
    process.kill(before, "SIGKILL");
    const state = await eventually(
      async () => pod.pids("libvirtd")[0] !== before && (await pod.virsh("domstate", "vm")),
      { withinMs: 20_000 },
    );
    expect(state.trim()).toBe("running");
    expect((await guest.run("report")).code).toBe(0);
  });
});

describe("a launcher", () => {
  let pod: LauncherPod;
  afterEach(async () => {
    await pod.remove();
  });

  test("shuts the guest down on SIGTERM and ends with 0", async () => {
    pod = await bench.launch();
    const guest = await pod.boot();
    await pod.terminate();
    await guest.waitForLine(/^power button$/, { timeoutMs: 10_000, fromStart: true });
    expect(await pod.exitCode(10_000)).toBe(0);
    expect(pod.pids("")).toEqual([]);
  });

  test("ends immediately on SIGTERM without a guest", async () => {
    pod = await bench.launch();
    await pod.terminate();
    expect(await pod.exitCode(2_000)).toBe(0);
  });

  test("ends a guest that does not shut down by the deadline as failed", async () => {
    pod = await bench.launch({ graceSeconds: 2 });
    await pod.start();
    await pod.virsh("suspend", "vm");
    await pod.terminate();
    expect(await pod.exitCode(10_000)).toBe(1);
  });

  test("ends with 0 when the guest powered off", async () => {
    pod = await bench.launch();
    const guest = await pod.boot();
    await guest.run("poweroff");
    expect(await pod.exitCode(10_000)).toBe(0);
  });

  test("ends the console printer with it, however it ends", async () => {
    pod = await bench.launch();
    await pod.start();
    const tail = await pod.startTail();
    await eventually(() => pod.pids("qemu").length > 0, { withinMs: 10_000 });
    // Like the OOM killer: PID 1 and everything with it.
    const [launcher = 0] = pod.pids("virt-launcher");
    process.kill(launcher, "SIGKILL");
    expect(await tail.exitCode(20_000)).toBe(0);
  });

  test("keeps running when a guest cannot be started", async () => {
    pod = await bench.launch();
    await expect(pod.start("no-such-kernel")).rejects.toThrow("Failed to start domain");
    // The error of libvirt has QEMU's message only if libvirt read it before the monitor closed. The log always has it.
    const message = /could not open kernel file.*no-such-kernel/;
    await eventually(() => message.test(readFileSync(pod.log("vm"), "utf8")), { withinMs: 10_000 });
    await pod.start();
    expect((await pod.virsh("domstate", "vm")).trim()).toBe("running");
  });

  test("ends with 1 when QEMU was killed, also while libvirt is away", async () => {
    pod = await bench.launch();
    await pod.start();
    const [libvirtd = 0] = pod.pids("libvirtd");
    const [qemu = 0] = pod.pids("qemu");
    process.kill(libvirtd, "SIGKILL");
    process.kill(qemu, "SIGKILL");
    expect(await pod.exitCode(20_000)).toBe(1);
  });

  test("ends with 1 when libvirt restarted and ended an unknown guest", async () => {
    pod = await bench.launch();
    await pod.start();
    const [libvirtd = 0] = pod.pids("libvirtd");
    const log = `/proc/${String(libvirtd)}/root/tmp/launcher/cache/libvirt/qemu/log/vm.log`;
    // In libvirt's format. Source: libvirt qemu_process.c, qemuProcessReconnect; virDomainShutoffReason.
    appendFileSync(log, "2026-01-01 00:00:00.000+0000: shutting down, reason=daemon\n");
    for (const pid of [libvirtd, ...pod.pids("qemu")]) process.kill(pid, "SIGKILL");
    expect(await pod.exitCode(20_000)).toBe(1);
  });
});
