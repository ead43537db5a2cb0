// SPDX-License-Identifier: Apache-2.0
// The launcher's PID 1 over real libvirt, with a real guest, in a container made by the shim.
import { readFileSync } from "node:fs";
import { eventually } from "@patchbay/testing";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { makeGuestImage, startLauncher, type LauncherPod } from "./launcher-pod.ts";

describe("launcher", () => {
  let image = "";
  let pod: LauncherPod;

  beforeAll(() => {
    image = makeGuestImage();
  });
  afterEach(async () => {
    await pod.remove();
  });

  test("boots a guest as a user without any capability, and the guest answers", async () => {
    pod = await startLauncher(image);
    const guest = await pod.boot();
    const [qemu = 0] = pod.pids("qemu");
    const status = readFileSync(`/proc/${String(qemu)}/status`, "utf8");
    expect(status).toMatch(/^Uid:\s+107\s+107\s+107\s+107$/m);
    expect(status).toMatch(/^CapBnd:\s+0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
    expect(await guest.run("report")).toEqual({ code: 0, lines: [] });
    expect((await guest.run("address eth7 10.0.0.1/24")).code).toBe(1);
  });

  test("starts libvirt again when it dies; the guest does not notice", async () => {
    pod = await startLauncher(image);
    const guest = await pod.boot();
    const [before = 0] = pod.pids("libvirtd");
    process.kill(before, "SIGKILL");
    const state = await eventually(
      async () => pod.pids("libvirtd")[0] !== before && (await pod.virsh("domstate", "vm")),
      { withinMs: 20_000 },
    );
    expect(state.trim()).toBe("running");
    expect((await guest.run("report")).code).toBe(0);
  });

  test("shuts the guest down on SIGTERM and ends with 0", async () => {
    pod = await startLauncher(image);
    const guest = await pod.boot();
    process.kill(pod.pid(), "SIGTERM");
    await guest.waitForLine(/^power button$/, { timeoutMs: 10_000, fromStart: true });
    expect(await pod.exitCode(10_000)).toBe(0);
    expect(pod.pids("")).toEqual([]);
  });

  test("ends at once on SIGTERM when there is no guest", async () => {
    pod = await startLauncher(image);
    process.kill(pod.pid(), "SIGTERM");
    expect(await pod.exitCode(2_000)).toBe(0);
  });

  test("ends a guest that does not shut down at the deadline", async () => {
    pod = await startLauncher(image, { graceSeconds: 2 });
    await pod.boot();
    await pod.virsh("suspend", "vm");
    process.kill(pod.pid(), "SIGTERM");
    expect(await pod.exitCode(10_000)).toBe(0);
  });

  test("ends with 0 when the guest turned itself off", async () => {
    pod = await startLauncher(image);
    const guest = await pod.boot();
    await guest.run("poweroff");
    expect(await pod.exitCode(10_000)).toBe(0);
  });

  test("goes on when the guest reboots", async () => {
    pod = await startLauncher(image);
    const guest = await pod.boot();
    const since = guest.position();
    await guest.run("reboot");
    await guest.waitForLine(/^guest ready$/, { timeoutMs: 30_000, since });
    expect((await pod.virsh("domstate", "vm")).trim()).toBe("running");
  });

  test("goes on when a guest cannot be started", async () => {
    pod = await startLauncher(image);
    await expect(pod.start("no-such-kernel")).rejects.toThrow("no-such-kernel");
    const guest = await pod.boot();
    expect((await guest.run("report")).code).toBe(0);
  });

  test("ends with 1 when QEMU was killed, also while libvirt is away", async () => {
    pod = await startLauncher(image);
    await pod.boot();
    const [libvirtd = 0] = pod.pids("libvirtd");
    const [qemu = 0] = pod.pids("qemu");
    process.kill(libvirtd, "SIGKILL");
    process.kill(qemu, "SIGKILL");
    expect(await pod.exitCode(20_000)).toBe(1);
  });
});
