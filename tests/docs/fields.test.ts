// SPDX-License-Identifier: Apache-2.0
// Fields marked as supported must be read by code, not only declared as types.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { listVmFields, type SchemaField } from "@patchbay/api/validate";
import { expect, test } from "vitest";

const PACKAGES = join(import.meta.dirname, "../../packages");
/** Packages that may implement a VM field; podnet receives DHCP options unchanged. */
const READERS = [
  "control-plane/core",
  "control-plane/virt-api",
  "control-plane/virt-controller",
  "control-plane/virt-handler",
  "adapters/podnet",
];
/** Migrates old field names. */
const ALIASES = "control-plane/api/src/kinds/field-aliases.ts";

function sourcesOf(folder: string): readonly string[] {
  return readdirSync(join(PACKAGES, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .map((name) => readFileSync(join(PACKAGES, folder, name), "utf8"));
}

/** Objects that are passed on whole. */
const AROUND_GUEST = /\.(chassis|dnsConfig|tolerations\[\]|downwardAPI\.fields\[\])\./;

test("every supported field is named by code that implements it", () => {
  const sources = [
    ...READERS.flatMap((name) => sourcesOf(`${name}/src`)),
    readFileSync(join(PACKAGES, ALIASES), "utf8"),
  ];
  const words = new Set(sources.flatMap((text) => text.match(/\w+/g) ?? []));
  const fields = listVmFields();
  // Objects with fields of their own are read by field.
  const isLeaf = ({ path }: SchemaField): boolean =>
    !fields.some((other) => other.path.startsWith(`${path}.`));
  const unread = fields
    .filter((field) => field.level === "acted" && isLeaf(field) && !AROUND_GUEST.test(field.path))
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
