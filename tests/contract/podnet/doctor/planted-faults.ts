// SPDX-License-Identifier: Apache-2.0
// Faults in the path of a NIC, and the hop that the doctor must name for each.
import { expect, test } from "vitest";
import { inScene } from "./doctor-scene.ts";
import { AT_TAP, IN_GUEST } from "./faults-at-guest.ts";
import { IN_POD } from "./faults-in-pod.ts";
import { BEYOND, ON_NODE } from "./faults-outside-pod.ts";
import type { PlantedFault } from "./plant.ts";

/** Numbers the faults, so that several scenes can exist at once. */
type NumberedFault = PlantedFault & { readonly number: number };

/** Numbers below this belong to the scenes of single tests. */
const FIRST_NUMBER = 100;

const GROUPS = [IN_GUEST, AT_TAP, IN_POD, ON_NODE, BEYOND];
const PLANTED: readonly NumberedFault[] = GROUPS.flat().map((fault, position) => ({
  ...fault,
  number: FIRST_NUMBER + position,
}));
const FIRST_OF_GROUPS: readonly string[] = GROUPS.flatMap(([fault]) => fault?.name ?? []);

/** One fault of each part of the path, for the short form of the tests. */
export const FEW_FAULTS = PLANTED.filter(({ name }) => FIRST_OF_GROUPS.includes(name));
export const OTHER_FAULTS = PLANTED.filter(({ name }) => !FIRST_OF_GROUPS.includes(name));

/** Defines a test per fault: the doctor names the first hop at which frames are dropped, and why. */
export function testPlantedFaults(faults: readonly NumberedFault[]): void {
  test.each(faults)("names $hop: $name", async (fault) => {
    const { hop, reason, direction = "", isUncertain, plant, facts, binding, number } = fault;
    const report = await inScene(number, async (scene) => {
      await scene.wire(binding);
      await plant(scene);
      return scene.examine(facts);
    });
    const dead = report.hops.find(({ state }) => state === "dead");
    const first = isUncertain === true ? report.hops.find((one) => one.hop === hop) : dead;
    expect(dead === undefined).toBe(isUncertain === true);
    expect({ hop: first?.hop, reason: first?.reason }).toEqual({ hop, reason });
    expect(first?.why).toContain(direction);
  });
}
