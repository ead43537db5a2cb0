// SPDX-License-Identifier: Apache-2.0
// Does a plan, carried out, leave nothing to be done, whatever there was before?
import type { NetworkSelection } from "@patchbay/api/annotations";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { facts, owned, type Facts } from "../../testing/attachment-facts.ts";
import { planAttachmentActions, type OwnedAttachment } from "./attachment-actions.ts";

describe("any facts", () => {
  const link = fc.constantFrom("net1", "net2", "net3");
  const name = fc.constantFrom("a", "b");
  const element = fc.record({ name, interface: link });
  const row = fc
    .record({
      name,
      interfaceName: link,
      state: fc.constantFrom("begun", "attached", "removed"),
      isStale: fc.boolean(),
      isAdopted: fc.boolean(),
    })
    .map(({ name: network, ...rest }) => ({ ...rest, network: `ns1/${network}` }));
  const unnamed = fc.record({ name });
  const rows = fc.uniqueArray(row, { selector: (entry) => entry.interfaceName });

  /** What the journal says after the plan was carried out. */
  function carryOut(input: Facts): readonly OwnedAttachment[] {
    let journal = input.owned.filter((entry) => entry.state !== "removed");
    for (const action of planAttachmentActions(input)) {
      const added = action.kind === "add" ? action.wanted.interfaceName : undefined;
      expect(journal.map((entry) => entry.interfaceName)).not.toContain(added);
      if (action.kind === "adopt") {
        const { network, interfaceName } = action.foreign;
        journal = [...journal, owned(network, interfaceName, { isAdopted: true })];
      }
      if (action.kind === "del" || action.kind === "forget")
        journal = journal.filter((entry) => entry !== action.owned);
      if (action.kind === "add")
        journal = [...journal, owned(action.wanted.network, action.wanted.interfaceName)];
    }
    return journal;
  }

  test("adopts foreign attachments under their names, and retains them", () => {
    const foreign = fc.uniqueArray(fc.record({ network: fc.constantFrom("ns1/a", "ns1/b", "x") }));
    fc.assert(
      fc.property(fc.array(unnamed), foreign, (elements, others) => {
        const entries = others.map((entry, index) => ({
          ...entry,
          interfaceName: `net${String(index + 1)}`,
        }));
        const input = facts(elements, { foreign: entries });
        const journal = carryOut(input);
        const names = new Set(journal.map(({ interfaceName }) => interfaceName));
        const left = entries.filter(({ interfaceName }) => !names.has(interfaceName));
        const after = planAttachmentActions({ ...input, owned: journal, foreign: left });
        expect(after.filter((action) => action.kind !== "reportError")).toEqual([]);
      }),
    );
  });

  test("retains unnamed attachments when other elements change, in any order", () => {
    const names = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { minLength: 1 });
    fc.assert(
      fc.property(names, fc.nat(3), fc.boolean(), (networks, at, isPlug) => {
        const elements: readonly NetworkSelection[] = networks.map((network) => ({
          name: network,
        }));
        const journal = carryOut(facts(elements));
        const place = at % networks.length;
        const edited = elements.toSpliced(
          place,
          isPlug ? 0 : 1,
          ...(isPlug ? [{ name: "e" }] : []),
        );
        const actions = planAttachmentActions(facts(edited, { owned: journal }));
        expect(actions.map(({ kind }) => kind)).toEqual([isPlug ? "add" : "del"]);
        expect(carryOut(facts(edited, { owned: journal }))).toHaveLength(edited.length);
      }),
    );
  });

  test("a plan after a completed plan is empty, and no name is used twice", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(element, unnamed)), rows, (elements, journal) => {
        const input = facts(elements, { owned: journal });
        const after = planAttachmentActions({ ...input, owned: carryOut(input) });
        expect(after.filter((action) => action.kind !== "reportError")).toEqual([]);
      }),
    );
  });
});
