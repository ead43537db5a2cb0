// SPDX-License-Identifier: Apache-2.0
// A service dies right after one of its actions during a plug and an unplug of a real guest. All points by `npm run
// faults`; otherwise a sample by the random seed or FAULT_SEED, which is printed.
import { isEqual } from "@patchbay/base";
import { eventually, SEED } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { strikeAt } from "../../faults/strike.ts";
import { guestNics } from "../guest.ts";
import { inventoryOf, othersHaveLeft } from "../inventory.ts";
import { appendOperations, CHANGE_MS, expectGone, expectReady, machine } from "../machine.ts";
import { virsh } from "../virsh.ts";

const VM = "alpha";
const NIC = { name: "fault", network: "blue", macAddress: "02:00:00:00:fa:01" };
/** The services with plans. */
const SERVICES = ["virt-controller", "net-agent", "virt-handler"];
/** No service has so many actions in one change. */
const ACTIONS_MAX = 60;
/** A service that dies often restarts after up to 10 s. */
const SETTLE_MS = CHANGE_MS + 15_000;

const isWhole = process.env["FAULT_POINTS"] === "all";
const seed = Number(process.env["FAULT_SEED"] ?? SEED);

/** A number from 1 to `max` derived from the seed. */
function drawn(index: number, max: number): number {
  // Source: D. Knuth, multiplicative hashing (2654435761).
  return ((Math.imul(seed + index * 7919, 2_654_435_761) >>> 16) % max) + 1;
}

interface NodeState {
  readonly onHost: unknown;
  readonly inGuest: readonly string[];
  /** Aliases of devices in the definition and in the running domain. */
  readonly inDomain: readonly string[];
}

let podUid: string;

function aliasesIn(...args: readonly string[]): readonly string[] {
  return [...virsh(VM, "dumpxml", ...args).matchAll(/alias name='(ua-[^']*)'/g)].flatMap(
    ([, alias]) => alias ?? [],
  );
}

async function look(): Promise<NodeState> {
  return {
    onHost: inventoryOf(podUid),
    inGuest: (await guestNics(VM)).map(({ mac }) => mac),
    inDomain: [...aliasesIn(), ...aliasesIn("--inactive")],
  };
}

/** Waits for a state; shows the last one on failure. */
async function expectState(wanted: NodeState, when: string): Promise<void> {
  let observed = await look();
  const isSo = async (): Promise<boolean> => {
    observed = await look();
    return isEqual(observed, wanted);
  };
  await eventually(isSo, { withinMs: SETTLE_MS }).catch(() => undefined); // reported by the next statement
  expect(observed, `what is there, ${when}`).toEqual(wanted);
}

function patch(operations: readonly unknown[]): void {
  machine.patch("vm", VM, operations);
}

async function plug(): Promise<void> {
  patch(appendOperations("/spec/template/spec", NIC));
  await expectReady(VM, NIC.name);
}

async function unplug(): Promise<void> {
  const { networks = [], domain } = machine.findVm(VM)?.spec.template.spec ?? {};
  const { interfaces = [] } = domain?.devices ?? {};
  const at = (list: readonly { readonly name: string }[]): string =>
    String(list.findIndex(({ name }) => name === NIC.name));
  patch([
    { op: "remove", path: `/spec/template/spec/networks/${at(networks)}` },
    { op: "remove", path: `/spec/template/spec/domain/devices/interfaces/${at(interfaces)}` },
  ]);
  await expectGone(VM, NIC.name);
}

let without: NodeState;
let withNic: NodeState;
/** Observed deaths. */
let points = 0;

beforeAll(async () => {
  await othersHaveLeft();
  podUid = machine.findPod(VM)?.metadata.uid ?? "";
  without = await look();
  await plug();
  withNic = await look();
  await unplug();
  await expectState(without, "after an unplug that nobody disturbed");
});

afterAll(() => {
  const how = isWhole ? "all" : `a sample, FAULT_SEED=${String(seed)}`;
  process.stdout.write(`deaths with a real guest: ${String(points)} points (${how})\n`);
});

/** The process that will die. One armed by an earlier, shorter change may be replaced. */
async function strike(service: string, action: number): Promise<number> {
  const tryToStrike = async (): Promise<number> => {
    const pid = machine.pidOf(service);
    await strikeAt(pid, action);
    return pid;
  };
  return eventually(tryToStrike, { withinMs: SETTLE_MS });
}

/** Makes a change while the service dies at that action; false when the change had fewer. */
async function disturb(
  service: string,
  action: number,
  change: () => Promise<void>,
): Promise<boolean> {
  const pid = await strike(service, action);
  await change();
  const hasDied = machine.pidOf(service) !== pid || !isAlive(pid);
  if (hasDied) {
    points += 1;
    await eventually(() => machine.pidOf(service) !== pid, { withinMs: SETTLE_MS });
  }
  return hasDied;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A plug and an unplug with a death at that action each; returns whether any death occurred. */
async function round(service: string, action: number): Promise<boolean> {
  const what = `${service} died at action ${String(action)}`;
  const inPlug = await disturb(service, action, plug);
  await expectState(withNic, `plugged while ${what}`);
  const inUnplug = await disturb(service, action, unplug);
  await expectState(without, `unplugged while ${what}`);
  // Progress for users.
  if (isWhole) process.stdout.write(`${what}: as without\n`);
  return inPlug || inUnplug;
}

/** Number of deaths of the service, at each action in turn or at the drawn one. */
async function deathsOf(service: string): Promise<number> {
  const before = points;
  // Every change has the first few actions.
  const first = isWhole ? 1 : drawn(SERVICES.indexOf(service), 4);
  const last = isWhole ? ACTIONS_MAX : first;
  let action = first;
  while (action <= last && (await round(service, action))) action += 1;
  if (isWhole && action > ACTIONS_MAX) throw new Error("there are more actions than that");
  return points - before;
}

test.each(SERVICES)(
  "%s dies after each action of a plug and an unplug: the result is the same",
  { timeout: isWhole ? 3_600_000 : 120_000 },
  async (service) => {
    expect(await deathsOf(service)).toBeGreaterThan(0);
  },
);
