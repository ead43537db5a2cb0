// SPDX-License-Identifier: Apache-2.0
// A NIC that takes over what another one has comes after it; the property is in converge.test.ts.
import { validateVmiSpec, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import { aVm, aVmi, type NicSketch } from "@patchbay/testing";
import { expect, test } from "vitest";
import { withNics } from "../../spec/nics.ts";
import { nicsAfter } from "../../testing/vmi-nics.ts";

const MAC = "02:00:00:00:00:01";

/** The VMI after one step of its VM. */
function step(vmi: VirtualMachineInstance, nics: readonly NicSketch[]): VirtualMachineInstance {
  const to = nicsAfter(aVm({ nics }).spec.template.spec, vmi);
  return { ...vmi, spec: withNics(vmi.spec, to.networks, to.ifaces) };
}

function sayNics({ spec }: VirtualMachineInstance): readonly string[] {
  return (spec.domain.devices?.interfaces ?? []).map(({ name, state }) =>
    `${name} ${state ?? ""}`.trim(),
  );
}

function running(nics: readonly NicSketch[], left: readonly string[]): VirtualMachineInstance {
  return aVmi({ nics, status: { interfaces: left.map((name) => ({ name })) } });
}

test("a renamed iface is an unplug, then a plug", () => {
  const renamed = [{ name: "new", mac: MAC }];
  const asked = step(running([{ name: "old", mac: MAC }], ["old"]), renamed);
  expect(sayNics(asked)).toEqual(["old absent"]);
  expect(validateVmiSpec(asked.spec, "spec")).toEqual([]);
  expect(sayNics(step(asked, renamed))).toEqual(["old absent"]);
  const gone = { ...asked, status: { interfaces: [] } };
  expect(sayNics(step(gone, renamed))).toEqual(["new"]);
});

test("what takes nothing over waits for nothing", () => {
  const wanted = [
    { name: "other", mac: "02:00:00:00:00:02" },
    { name: "new", mac: MAC },
  ];
  expect(sayNics(step(running([{ name: "old", mac: MAC }], ["old"]), wanted))).toEqual([
    "old absent",
    "other",
  ]);
});

test("the same MAC on another network waits for nothing", () => {
  const wanted = [{ name: "new", mac: MAC, network: "red" }];
  expect(sayNics(step(running([{ name: "old", mac: MAC }], ["old"]), wanted))).toEqual([
    "old absent",
    "new",
  ]);
});

test("the MAC of one that changes at the next start only is waited for", () => {
  const wanted = [
    { name: "c", mac: MAC },
    { name: "a", mac: "02:00:00:00:00:02" },
    { name: "b", mac: "02:00:00:00:00:03" },
  ];
  const asked = step(running([{ name: "c", mac: "02:00:00:00:00:02" }], ["c"]), wanted);
  expect(sayNics(asked)).toEqual(["c", "b"]);
  expect(validateVmiSpec(asked.spec, "spec")).toEqual([]);
});

test("the place on a network that one leaves at the next start only is waited for", () => {
  const wanted = [
    { name: "c", mac: MAC, network: "red" },
    { name: "a", mac: MAC, network: "blue" },
  ];
  expect(sayNics(step(running([{ name: "c", mac: MAC }], ["c"]), wanted))).toEqual(["c"]);
});

test("what is refused anyway is left to admission, which says why", () => {
  const wanted = [
    { name: "stays", mac: MAC },
    { name: "twin", mac: MAC },
  ];
  const vmi = running([{ name: "stays", mac: MAC }, { name: "old" }], ["old"]);
  expect(sayNics(step(vmi, wanted))).toEqual(["stays", "old absent", "twin"]);
});

/** A VMI on the pod network whose iface has that state. */
function onPodNetwork(state?: string): VirtualMachineInstance {
  const vmi = aVmi();
  const iface = { name: "default", bridge: {}, ...(state === undefined ? {} : { state }) };
  return { ...vmi, spec: withNics(vmi.spec, [{ name: "default", pod: {} }], [iface]) };
}

function stateAfter(template: VmiSpec, state?: string): string | undefined {
  return nicsAfter(template, onPodNetwork(state)).ifaces[0]?.state;
}

test("the link of the default network's iface follows, and nothing else of it", () => {
  expect(stateAfter(onPodNetwork("down").spec)).toBe("down");
  expect(stateAfter(onPodNetwork("up").spec, "down")).toBe("up");
  expect(stateAfter(onPodNetwork().spec, "down")).toBeUndefined();
  expect(stateAfter(onPodNetwork("absent").spec, "up")).toBe("up");
  expect(stateAfter(aVmi().spec, "up")).toBe("up");
});
