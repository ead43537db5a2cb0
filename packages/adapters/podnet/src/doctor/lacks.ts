// SPDX-License-Identifier: Apache-2.0
// What of a wiring is not as it should be: the changes that would mend it.
import type { SeenWiring, WiringLack } from "@patchbay/core";
import { printLinkChange, type LinkChange } from "../link-change.ts";
import { natNameOf, natTable } from "../nft/nat.ts";
import { hasTable } from "../nft/table.ts";
import { answersCommands } from "../wiring/bridge.ts";
import { planForwarding, planWiring } from "../wiring/bridge-plan.ts";
import { planAddresses, planLinks, planSettings } from "../wiring/masquerade-plan.ts";
import { guardCommands } from "../wiring/rules.ts";
import { ANY_TAP } from "../wiring/tap-plan.ts";
import type { NetnsState } from "../wiring/wirer.ts";

const OF_SETTING = ["master", "mac", "learning", "up"] as const;

const OF_OTHERS: Partial<Readonly<Record<LinkChange["op"], WiringLack["what"]>>> = {
  addBridge: "link",
  addTap: "link",
  replaceForwarding: "entry",
  deleteForwarding: "entry",
};

function whatOf(change: LinkChange): WiringLack["what"] {
  if (change.op !== "setLink") return OF_OTHERS[change.op] ?? "other";
  return OF_SETTING.find((name) => change.settings[name] !== undefined) ?? "other";
}

function toLack(change: LinkChange): WiringLack {
  return { link: change.link, what: whatOf(change), words: printLinkChange(change) };
}

function changesOf(
  { links, forwarding, settings, tables }: NetnsState,
  wiring: SeenWiring,
): readonly WiringLack[] {
  const nic = links.get(wiring.podInterfaceName);
  if (wiring.kind === "tap" || nic === undefined) return [];
  const entries = planForwarding(wiring, forwarding);
  if (wiring.kind === "bridge") {
    return [...planWiring(nic, links, { ...wiring, ...ANY_TAP }), ...entries].map(toLack);
  }
  const changes = [
    ...planLinks(links, { ...wiring, ...ANY_TAP }),
    ...planAddresses(links, wiring),
    ...entries,
  ];
  const set = planSettings(settings, wiring).map(({ path, value }) => `${path}=${value}`);
  const nat = hasTable(tables, natTable(wiring)) ? [] : [natNameOf(wiring.podInterfaceName).name];
  const ofPod = [...nat, ...set].map((words) => ({ link: "", what: "rules" as const, words }));
  return [...changes.map(toLack), ...ofPod];
}

function rulesOf(state: NetnsState, wiring: SeenWiring): readonly WiringLack[] {
  const guard = guardCommands(state, wiring) === "" ? [] : [wiring.tapName];
  const answers =
    wiring.kind === "bridge" && answersCommands(state, wiring) !== "" ? [wiring.bridgeName] : [];
  return [...guard, ...answers].map((link) => {
    return { link, what: "rules", words: `its table patchbay-${link}, as it was made` };
  });
}

/** What is missing; what is missing only because something else is, is left out. */
export function lacksIn(state: NetnsState, wiring: SeenWiring): readonly WiringLack[] {
  const all = [...changesOf(state, wiring), ...rulesOf(state, wiring)];
  const hasBridge = wiring.kind === "tap" || state.links.has(wiring.bridgeName);
  const isLoose = ({ link }: WiringLack): boolean =>
    all.some((lack) => lack.link === link && lack.what === "master");
  return all.filter((lack) => {
    if (lack.what === "learning" || lack.what === "entry") return hasBridge && !isLoose(lack);
    return lack.what !== "master" || hasBridge;
  });
}
