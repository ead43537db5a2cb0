// SPDX-License-Identifier: Apache-2.0
// addinterface --check.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DoctorReport, HopReport } from "@patchbay/core/doctor";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { printError } from "../../print/error.ts";
import {
  FakeMachine,
  plugged,
  SUBRESOURCES,
  VMIS,
  vmiOf,
  VMS,
} from "../../testing/fake-machine.ts";
import { runPatchbay, type Ended } from "../../testing/run-patchbay.ts";

const DOCTOR = `${SUBRESOURCES}/virtualmachineinstances/one/doctor`;
const ADD = ["addinterface", "one", "--name", "red", "--check"] as const;
const NETWORK = ["--network-attachment-definition-name", "red"] as const;
const HOPS = [
  ...(["guest", "device", "tap", "podBridge", "addresses", "translation", "podNic"] as const),
  ...(["nodePeer", "nodeBridge", "uplink", "gateway"] as const),
];
const READY = { phase: "Ready" };

let directory = "";
let machine = new FakeMachine();
let kubeconfig = "";
let interrupted = new AbortController();
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-check-"));
  machine = new FakeMachine();
  machine.after = [plugged("2", READY)];
  kubeconfig = await machine.start(directory);
  interrupted = new AbortController();
});
afterEach(async () => {
  await machine.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** The VM with these interfaces, its VMI, and the doctor's report, if any. */
function prepare(ifaces: readonly string[], report?: DoctorReport): void {
  const interfaces = ifaces.map((name) => ({ name }));
  const spec = { template: { spec: { domain: { devices: { interfaces } } } } };
  machine.objects = {
    [`${VMS}/one`]: { metadata: { namespace: "blue", name: "one" }, spec },
    [`${VMIS}/one`]: vmiOf("1"),
    ...(report === undefined ? {} : { [DOCTOR]: report }),
  };
}

function reportWith(...hops: readonly Partial<HopReport>[]): DoctorReport {
  const all = HOPS.map((hop) => ({
    hop,
    state: "ok" as const,
    why: "frames pass",
    ...hops.find((each) => each.hop === hop),
  }));
  const firstDead = all.find(({ state }) => state === "dead")?.hop;
  return {
    vmi: "blue/one",
    interface: "red",
    hops: all,
    milliseconds: 7,
    isUnplugReason: firstDead === "tap",
    ...(firstDead === undefined ? {} : { firstDead }),
  };
}

const DEAD = reportWith({ hop: "tap", state: "dead", reason: "TapDown", why: "it is down" });
const DEAD_OUTSIDE = reportWith({ hop: "uplink", state: "dead", reason: "NoCarrier", why: "no" });

function patchbay(...more: readonly string[]): Promise<Ended> {
  // Grace period of a newly plugged NIC.
  const args = [...ADD, ...NETWORK, "--timeout", "2s", "--kubeconfig", kubeconfig, ...more];
  return runPatchbay(args, interrupted.signal);
}

function listRequests(): readonly string[] {
  return machine.requests
    .filter(({ method }) => method === "PUT")
    .map(({ path }) => path.slice(path.lastIndexOf("/") + 1));
}

/** After the plug, the next request unplugs it. */
function unplugNext(): void {
  machine.onAllSent = () => {
    machine.objects = { ...machine.objects, [`${VMIS}/one`]: plugged("3", READY) };
    machine.after = [vmiOf("4")];
    machine.onAllSent = () => undefined;
  };
}

describe("addinterface --check", () => {
  test("prints the hops of a working interface and leaves it plugged", async () => {
    prepare([], reportWith({ hop: "gateway", state: "unknown", why: "it did not answer" }));
    const { out, error } = await patchbay();
    expect(error).toBeUndefined();
    expect(out).toContain("plug of interface red done");
    expect(out).toContain("gateway");
    expect(listRequests()).toEqual(["addinterface"]);
  });

  test("unplugs an interface that does not work and names the hop that loses frames", async () => {
    prepare([], DEAD);
    unplugNext();
    const { out, error } = await patchbay();
    expect(listRequests()).toEqual(["addinterface", "removeinterface"]);
    expect(out).toContain("it is down");
    expect(out).toContain("unplug of interface red done");
    expect(printError(error)).toContain(
      "interface red of one does not work: tap: it is down; it was unplugged again",
    );
  });

  test.each([
    {
      name: "leaves the interface plugged with --keep",
      more: ["--keep"],
      ifaces: [],
      report: DEAD,
      stands: /--keep/,
    },
    {
      name: "leaves an interface that existed before",
      more: [],
      ifaces: ["red"],
      report: DEAD,
      stands: /existed before/,
    },
    {
      name: "leaves the interface plugged if the fault is outside the pod",
      more: [],
      ifaces: [],
      report: DEAD_OUTSIDE,
      stands: /uplink: no; it was left in place, because the fault/,
    },
  ])("$name", async ({ more, ifaces, report, stands }) => {
    prepare(ifaces, report);
    const { error } = await patchbay(...more);
    expect(listRequests()).toEqual(["addinterface"]);
    expect(printError(error)).toMatch(stands);
  });

  test("prints one JSON object", async () => {
    prepare([], DEAD);
    unplugNext();
    const { out, error } = await patchbay("-o", "json");
    expect(error).toBeDefined();
    expect(JSON.parse(out)).toMatchObject({
      action: "addinterface",
      interface: "red",
      result: "done",
      stands: "removed",
      check: { firstDead: "tap" },
    });
  });

  test("leaves the interface plugged if the check itself fails, and reports that", async () => {
    prepare([]);
    const { error } = await patchbay();
    expect(listRequests()).toEqual(["addinterface"]);
    expect(printError(error)).toMatch(/is plugged and was left in place; it could not be checked/);
  });

  test("reports that the interface stays after an interrupt", async () => {
    prepare([], DEAD);
    let examinations = 0;
    machine.requested = (path) => {
      if (path === DOCTOR) examinations += 1;
      if (examinations === 2) interrupted.abort(new Error("interrupted by SIGINT"));
    };
    const { error } = await patchbay("--timeout", "60s");
    expect(listRequests()).toEqual(["addinterface"]);
    expect(printError(error)).toMatch(/is plugged and was left in place; .*: interrupted/);
  });

  test("skips the check of a stopped VM", async () => {
    prepare([]);
    machine.objects = Object.fromEntries(Object.entries(machine.objects).slice(0, 1));
    const { out, error } = await patchbay();
    expect(error).toBeUndefined();
    expect(out).toMatch(/at its next start; not checked/);
  });
});

test("rejects --keep without --check", async () => {
  prepare([]);
  const args = ["addinterface", "one", "--name", "red", ...NETWORK, "--keep"];
  const { error } = await runPatchbay([...args, "--kubeconfig", kubeconfig], interrupted.signal);
  expect(printError(error)).toContain("--keep: it has no effect without --check");
});
