// SPDX-License-Identifier: Apache-2.0
// A field that is said to be acted on is one that somebody reads: not typed and then forgotten.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { vmFields, type SchemaField } from "@patchbay/api";
import { expect, test } from "vitest";

const PACKAGES = join(import.meta.dirname, "../../packages");
/** Who may act on a field of a VM; podnet is handed the options of DHCP as they are. */
const READERS = [
  "control-plane/core",
  "control-plane/virt-api",
  "control-plane/virt-controller",
  "control-plane/virt-handler",
  "adapters/podnet",
];
/** Reads older names of fields. */
const ALIASES = "control-plane/api/src/kinds/field-aliases.ts";

function sourcesOf(folder: string): readonly string[] {
  return readdirSync(join(PACKAGES, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .map((name) => readFileSync(join(PACKAGES, folder, name), "utf8"));
}

/** Objects that are passed on as they are. */
const AROUND_GUEST = /\.(chassis|dnsConfig|tolerations\[\]|downwardAPI\.fields\[\])\./;

test("every supported field is named by code that implements it", () => {
  const sources = [
    ...READERS.flatMap((name) => sourcesOf(`${name}/src`)),
    readFileSync(join(PACKAGES, ALIASES), "utf8"),
  ];
  const words = new Set(sources.flatMap((text) => text.match(/\w+/g) ?? []));
  const fields = vmFields();
  // What has fields of its own is read where they are.
  const isLeaf = ({ path }: SchemaField): boolean =>
    !fields.some((other) => other.path.startsWith(`${path}.`));
  const unread = fields
    .filter((field) => field.list === "acted" && isLeaf(field) && !AROUND_GUEST.test(field.path))
    .map(({ path }) => path)
    .filter(
      (path) =>
        !words.has(
          path
            .replace(/\[\]|\{\}/g, "")
            .split(".")
            .at(-1) ?? "",
        ),
    );
  expect(words.size).toBeGreaterThan(1000);
  expect(unread).toEqual([]);
});
