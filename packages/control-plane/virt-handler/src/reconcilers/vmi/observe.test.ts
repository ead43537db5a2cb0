// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { readDomainFacts } from "./observe.ts";

function nic(mac: string): string {
  return `<interface type='ethernet'><mac address='${mac}'/><model type='virtio'/></interface>`;
}

function domain(...macs: readonly string[]): string {
  return `<domain type='kvm'><name>a</name><devices>${macs.map(nic).join("")}</devices></domain>`;
}

/** A connection that returns these XML texts in sequence. */
function connectionOf(...texts: readonly string[]) {
  const left = [...texts];
  return { readDomainXml: () => Promise.resolve(left.shift() ?? "") };
}

const [FIRST, SECOND] = ["02:00:00:00:00:01", "02:00:00:00:00:02"] as const;

test("parses the XML again only when it changes", async () => {
  const connection = connectionOf(domain(FIRST), domain(FIRST), domain(FIRST, SECOND));
  const first = await readDomainFacts("a", connection);
  expect(await readDomainFacts("a", connection)).toBe(first);
  const third = await readDomainFacts("a", connection);
  expect(third.nics.map(({ mac }) => mac)).toEqual([FIRST, SECOND]);
});

test("does not share the cache between connections", async () => {
  const first = await readDomainFacts("a", connectionOf(domain(FIRST)));
  expect(await readDomainFacts("a", connectionOf(domain(FIRST)))).not.toBe(first);
});

test("rejects invalid XML each time", async () => {
  const connection = connectionOf("<domain", "<domain");
  for (let look = 0; look < 2; look += 1) {
    await expect(readDomainFacts("a", connection)).rejects.toMatchObject({
      code: "DOMAIN_XML_INVALID",
    });
  }
});
