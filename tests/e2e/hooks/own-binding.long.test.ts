// SPDX-License-Identifier: Apache-2.0
// Custom bindings step by step with the files of docs/examples/own-binding.md: with a plugin that creates the tap, and
// with a hook that defines the NIC. Missing steps are reported.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, installPlugin } from "@patchbay/support";
import { parse } from "yaml";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { expectReady, guestNic, ifaceStatus, machine, ping, setAddress } from "../machine.ts";

const { root: ROOT } = inject("machine");
const FILES = join(ROOT, "docs/examples/own-binding");
/** Time for a rejection or an image lookup on a busy machine. */
const REPORT_TIMEOUT_MS = 90_000;
const BASE = "localhost/patchbay/sidecar-shim:dev";
/** The topmost directory that did not exist. */
let removePlugin = (): void => undefined;

function apply(file: string): void {
  machine.kubectl("apply", "-f", join(FILES, file));
}

function register(file: string): void {
  const patch = ["--type", "merge", "--patch-file", join(FILES, file)];
  machine.kubectl("-n", "patchbay", "patch", "kubevirt", "kubevirt", ...patch);
}

/** The image that the file registers. */
function hookImage(): string {
  const patch = parse(readFileSync(join(FILES, "binding-hook.yaml"), "utf8")) as {
    readonly spec: {
      readonly configuration: {
        readonly network: { readonly binding: Readonly<Record<string, { sidecarImage: string }>> };
      };
    };
  };
  return patch.spec.configuration.network.binding["example-hook"]?.sidecarImage ?? "";
}

/**
 * The Containerfile's result without a container engine: the file in a layer on the image that implements the protocol.
 */
function makeHookImage(archive: string): void {
  const work = mkdtempSync(join(tmpdir(), "patchbay-hook-"));
  const run = (program: string, ...args: readonly string[]): unknown =>
    execFileSync(program, [...args], { cwd: work });
  try {
    mkdirSync(join(work, "layout"));
    run("tar", "-xf", join(ROOT, ".cache/images/sidecar-shim.tar"), "-C", "layout");
    mkdirSync(join(work, "root/usr/bin"), { recursive: true });
    copyFileSync(join(FILES, "onDefineDomain"), join(work, "root/usr/bin/onDefineDomain"));
    run(
      "tar",
      "-cf",
      "layer.tar",
      "-C",
      "root",
      "--owner=0",
      "--group=0",
      "usr/bin/onDefineDomain",
    );
    run("umoci", "raw", "add-layer", "--image", `layout:${BASE}`, "layer.tar");
    run("tar", "-cf", archive, "-C", "layout", "oci-layout", "index.json", "blobs");
  } finally {
    rmSync(work, { recursive: true });
  }
}

function addHookImage(): void {
  execFileSync(join(ROOT, "hack/images/make-images"), ["sidecar-shim"], { stdio: "inherit" });
  const directory = mkdtempSync(join(tmpdir(), "patchbay-archive-"));
  try {
    makeHookImage(join(directory, "hook.tar"));
    machine.patchbay("image", "add", hookImage(), join(directory, "hook.tar"));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

beforeAll(() => {
  addHookImage();
});

afterAll(() => {
  machine.deleteIfPresent("vm", "with-tap", "with-hook");
  machine.kubectl("delete", "-f", join(FILES, "network.yaml"), "--ignore-not-found");
  const binding = { "example-tap": null, "example-hook": null };
  const none = JSON.stringify({ spec: { configuration: { network: { binding } } } });
  machine.kubectl("-n", "patchbay", "patch", "kubevirt", "kubevirt", "--type", "merge", "-p", none);
  removePlugin();
});

test("a VM with an unregistered binding is not started, and its condition reports the reason", async () => {
  apply("network.yaml");
  apply("vm-tap.yaml");
  const isReported = (): boolean => {
    const { conditions = [] } = machine.findVm("with-tap")?.status ?? {};
    return conditions.some(({ message = "" }) =>
      message.includes('"example-tap" is not registered'),
    );
  };
  await eventually(isReported, { withinMs: REPORT_TIMEOUT_MS });
});

test("after the registration its guest starts; without the plugin the NIC waits and names it", async () => {
  register("binding-tap.yaml");
  await machine.booted("with-tap");
  await eventually(() => ifaceStatus("with-tap", "tap1")?.hotplug?.reason === "PluginMissing", {
    withinMs: REPORT_TIMEOUT_MS,
  });
  expect(ifaceStatus("with-tap", "tap1")?.hotplug?.message).toContain("example-tap");
  expect(machine.patchbay("explain", "with-tap", "tap1")).toContain("PluginMissing");
});

test("installing the plugin completes the NIC: the guest reaches the other end of its tap", async () => {
  removePlugin = installPlugin("example-tap", (path) => {
    copyFileSync(join(FILES, "example-tap"), path);
  });
  await eventually(() => ifaceStatus("with-tap", "tap1")?.hotplug?.phase === "Ready", {
    withinMs: REPORT_TIMEOUT_MS,
  });
  await setAddress("with-tap", "tap1", "10.8.20.2/24");
  expect(await ping("with-tap", "10.8.20.1")).toEqual({ sent: 3, received: 3 });
});

test("a hook's binding defines the NIC that the guest boots with", async () => {
  machine.delete("vm", "with-tap");
  register("binding-hook.yaml");
  apply("vm-hook.yaml");
  await machine.booted("with-hook");
  const { mac = "" } = await expectReady("with-hook", "default");
  expect(mac).toBe("02:00:00:00:20:01");
  const nic = await guestNic("with-hook", mac);
  // QEMU's network has a DHCP server at its own address. Source: QEMU, -netdev user
  const { code, lines } = await machine.console("with-hook").run(`lease ${nic}`);
  expect({ code, text: lines.join("\n") }).toEqual({
    code: 0,
    text: expect.stringContaining("10.0.2.15") as string,
  });
  const { name: pod = "" } = machine.findPod("with-hook")?.metadata ?? {};
  expect(machine.kubectl("logs", pod, "-c", "hook-sidecar-0")).toContain(
    "for the binding example-hook",
  );
});
