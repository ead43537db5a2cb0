// SPDX-License-Identifier: Apache-2.0
// Several NICs in one VM: on the same network, concurrently, and beside the permanent pod network.
import { ifacesOf } from "@patchbay/core/nics";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  addInterface,
  appendOperations,
  CHANGE_MS,
  expectGone,
  expectReady,
  machine,
  ping,
  removeInterface,
  setAddress,
  SUBRESOURCES,
} from "../machine.ts";

const NAMES = ["blue2", "red1", "red2"] as const;

const seconds: unknown = expect.stringMatching(/^[\d.]+ s$/);
const outcome: unknown = expect.stringMatching(/^Done\b/);

/** These events among optional others, each with its duration. */
function phases(...names: readonly string[]): unknown {
  return expect.stringMatching(names.map((name) => `${name} [\\d.]+ s`).join(".*"));
}

describe("several NICs", () => {
  beforeAll(() => {
    addInterface("beta", { name: "base", network: "blue" });
  });

  afterAll(async () => {
    const there = ifacesOf(machine.findVm("alpha")?.spec.template.spec ?? { domain: {} });
    const names = NAMES.filter((name) => there.some((iface) => iface.name === name));
    for (const name of names) removeInterface("alpha", name);
    for (const name of names) await expectGone("alpha", name);
  });

  test("a third NIC on a network that the VM already uses", async () => {
    addInterface("alpha", { name: "blue2", network: "blue" });
    await setAddress("alpha", "blue2", "10.9.1.1/24");
    await setAddress("beta", "base", "10.9.1.2/24");
    expect(await ping("beta", "10.9.1.1")).toEqual({ sent: 3, received: 3 });
  });

  test("several at once, each with its own address", async () => {
    const nics = [
      { name: "red1", network: "red" },
      { name: "red2", network: "red" },
    ];
    const operations = nics.flatMap((nic) => appendOperations("/spec/template/spec", nic));
    machine.patch("vm", "alpha", operations);
    const statuses = [];
    for (const { name } of nics) statuses.push(await expectReady("alpha", name));
    const all = machine.findVmi("alpha")?.status?.interfaces ?? [];
    expect(new Set(all.map(({ pciAddress }) => pciAddress)).size).toBe(all.length);
    expect(new Set(all.map(({ mac }) => mac)).size).toBe(all.length);
    expect(statuses).toHaveLength(2);
  });

  test("kubectl describe vm reports each NIC once, in order, with its time", async () => {
    removeInterface("alpha", "red2");
    await expectGone("alpha", "red2");
    const lines = (): readonly string[] =>
      machine
        .kubectl("describe", "vm", "alpha")
        .split("\n")
        .filter((line) => /^ +(Normal|Warning) +Interface/.test(line));
    const isOut =
      /InterfaceUnplugged .*virt-handler +interface red2 is out .*, after [\d.]+ s \(guest /;
    await eventually(() => lines().some((line) => isOut.test(line)), { withinMs: CHANGE_MS });
    const reported = lines();
    const at = (pattern: RegExp): readonly number[] =>
      reported.flatMap((line, index) => (pattern.test(line) ? [index] : []));
    const plugged = ["blue2 .* network blue", "red1 .* network red", "red2 .* network red"].map(
      (text) =>
        at(
          new RegExp(
            `InterfacePlugged .* interface ${text} with MAC \\S+, after [\\d.]+ s \\(pod `,
          ),
        ),
    );
    const outs = at(isOut);
    const counts = [...plugged, outs].map((found) => found.length);
    expect({ counts, told: reported }).toMatchObject({ counts: [1, 1, 1, 1] });
    const [blue2 = 0, ...reds] = plugged.flat();
    for (const red of reds) expect(red).toBeGreaterThan(blue2);
    expect(outs[0]).toBeGreaterThan(Math.max(...reds));
  });

  test("patchbay history shows a removed NIC with the time of each phase", () => {
    const lines = machine.patchbay("history", "alpha", "red2").trimEnd().split("\n").slice(1);
    expect(lines.map((line) => line.split(/ {3,}/u).slice(1))).toEqual([
      ["red2", "Plug", "default/red", seconds, phases("Pending", "Wiring"), outcome],
      ["red2", "Unplug", "default/red", seconds, phases("Detaching", "PodDetaching"), outcome],
    ]);
  });

  test("rejects the removal of the NIC on the default pod network", () => {
    const before = machine.findVm("alpha")?.metadata.generation;
    const path = `${SUBRESOURCES}/virtualmachines/alpha/removeinterface`;
    const { code, stderr } = machine.put(path, { name: "default" });
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/default/);
    expect(stderr).toMatch(/pod network|default network/);
    expect(machine.findVm("alpha")?.metadata.generation).toBe(before);
  });
});
