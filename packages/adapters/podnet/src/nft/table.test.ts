// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  hasTable,
  hasTableNamed,
  parseRuleset,
  removeTable,
  replaceTable,
  printTable,
  type Table,
} from "./table.ts";

const TABLE: Table = {
  family: "inet",
  name: "patchbay-eth0",
  chains: [
    {
      name: "inward",
      hook: { type: "nat", point: "prerouting priority dstnat", policy: "accept" },
      rules: ['iifname "eth0" dnat ip to 10.0.2.2', "accept"],
    },
    { name: "rest", rules: [] },
  ],
};

/** As nft 1.0.6 prints it, with an empty line between chains. */
const PRINTED = `table inet patchbay-eth0 {
	chain inward {
		type nat hook prerouting priority dstnat; policy accept;
		iifname "eth0" dnat ip to 10.0.2.2
		accept
	}

	chain rest {
	}
}
`;
const FOREIGN = `table ip nat {
	chain PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
	}
}
`;

describe("a table", () => {
  test("replaces an existing table in one transaction", () => {
    expect(replaceTable(TABLE).commands).toBe(
      `table inet patchbay-eth0\ndelete table inet patchbay-eth0\n${printTable(TABLE)}\n`,
    );
    expect(removeTable(TABLE).commands).toBe(
      "table inet patchbay-eth0\ndelete table inet patchbay-eth0\n",
    );
  });

  test("is found as nft prints it, among other tables", () => {
    const parsed = parseRuleset(`${FOREIGN}${PRINTED}${FOREIGN}`);
    expect(hasTable(parsed, TABLE)).toBe(true);
    expect([...parsed.keys()]).toEqual(["ip nat", "inet patchbay-eth0"]);
  });

  test.each([
    ["-100", "dstnat"],
    ["8191 != 0 ", "0x1fff != 0x0 "],
  ])("is found with '%s', also as nft 1.1 prints it: '%s'", (text, newer) => {
    const hook = { type: "nat", point: "output priority -100", policy: "accept" } as const;
    const rules = ["ip frag-off & 8191 != 0 ip saddr . ip daddr . meta l4proto @pairs4 accept"];
    const table: Table = { ...TABLE, chains: [{ name: "loopback", hook, rules }] };
    const printed = printTable(table);
    expect(hasTable(parseRuleset(`${printed}\n`), table)).toBe(true);
    expect(hasTable(parseRuleset(`${printed.replace(text, newer)}\n`), table)).toBe(true);
  });

  test.each([
    ["a rule is missing", PRINTED.replace("\t\taccept\n", "")],
    ["a rule was added", PRINTED.replace("chain rest {\n", "chain rest {\n\t\taccept\n")],
    ["the rules are in another order", PRINTED.replace(/(\t\tiif.*\n)(\t\taccept\n)/, "$2$1")],
    ["a chain was added", PRINTED.replace("\tchain rest", "\tchain more {\n\t}\n\n\tchain rest")],
    ["the policy is another", PRINTED.replace("policy accept", "policy drop")],
    ["it is of another family", PRINTED.replace("table inet", "table ip")],
    ["the text is cut short", PRINTED.slice(0, -3)],
  ])("is not found when %s", (_name, text) => {
    expect(hasTable(parseRuleset(text), TABLE)).toBe(false);
  });

  test("is found by its name, whatever its content", () => {
    const { family, name } = TABLE;
    expect(hasTableNamed(parseRuleset("table inet patchbay-eth0 {\n}\n"), { family, name })).toBe(
      true,
    );
    expect(hasTableNamed(parseRuleset(FOREIGN), { family, name })).toBe(false);
  });
});
