// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildApiServerOptions } from "./api-server-options.ts";

const KEPT = { apiPort: 6443, apiAddress: "192.0.2.1", serviceSubnet: "10.97.0.0/16" };

test.each([
  {
    name: "settings",
    port: undefined,
    stored: KEPT,
    want: { port: 6443, secondHost: "192.0.2.1", serviceNetwork: "10.97.0.0/16" },
  },
  {
    name: "settings of an early version",
    port: undefined,
    stored: { apiPort: 6443, apiAddress: "" },
    want: { port: 6443 },
  },
  { name: "only a port", port: 0, stored: undefined, want: { port: 0 } },
  {
    name: "a port and settings",
    port: 1,
    stored: { apiPort: 2 },
    want: { port: 1 },
  },
])("an API server by $name", ({ port, stored, want }) => {
  expect(buildApiServerOptions(port, stored)).toStrictEqual(want);
});

test("an API server without a port is refused", () => {
  expect(() => buildApiServerOptions(undefined, { apiPort: "6443" })).toThrow("--port is missing");
});
