// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { isResultOf } from "./cni.ts";

const OURS = '{"name":"patchbay","plugins":[{"ipam":{"dataDir":"/a/leases"}}]}';

// As CNI's library writes it, shortened.
function resultOf(config: string): string {
  const encoded = Buffer.from(config).toString("base64");
  return JSON.stringify({ kind: "cniCacheV1", containerId: "1", config: encoded });
}

test.each([
  { name: "of our network", text: resultOf(OURS), want: true },
  { name: "of another machine's", text: resultOf(OURS.replace("/a/", "/b/")), want: false },
  { name: "without a configuration", text: "{}", want: false },
  { name: "that is invalid JSON", text: "{", want: false },
  { name: "that was deleted", text: undefined, want: false },
])("a result $name belongs to this machine: $want", ({ text, want }) => {
  expect(isResultOf(text, [OURS, ""])).toBe(want);
});
