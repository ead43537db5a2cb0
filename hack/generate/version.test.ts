// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { renderLock, renderManifest } from "./version.ts";

test("a manifest gets the version, and Patchbay's packages in it", () => {
  const given = {
    name: "@patchbay/a",
    version: "0.1.0",
    dependencies: { "@patchbay/b": "0.1.0", ws: "0.1.0" },
    devDependencies: { "@patchbay/c": "0.1.0" },
  };
  expect(renderManifest(JSON.stringify(given), "0.2.0")).toBe(`{
  "name": "@patchbay/a",
  "version": "0.2.0",
  "dependencies": {
    "@patchbay/b": "0.2.0",
    "ws": "0.1.0"
  },
  "devDependencies": {
    "@patchbay/c": "0.2.0"
  }
}
`);
});

test("a lock file gets the version in the entries of workspaces only", () => {
  const given = {
    version: "0.1.0",
    packages: {
      "": { version: "0.1.0" },
      "node_modules/@patchbay/b": { resolved: "packages/b", link: true },
      "node_modules/ws": { version: "0.1.0", dependencies: { "@patchbay/b": "0.1.0" } },
      "packages/b": { version: "0.1.0", dependencies: { "@patchbay/c": "0.1.0" } },
      "packages/b/node_modules/ws": { version: "0.1.0" },
    },
  };
  expect(JSON.parse(renderLock(JSON.stringify(given), "0.2.0"))).toEqual({
    version: "0.2.0",
    packages: {
      "": { version: "0.2.0" },
      "node_modules/@patchbay/b": { resolved: "packages/b", link: true },
      "node_modules/ws": { version: "0.1.0", dependencies: { "@patchbay/b": "0.1.0" } },
      "packages/b": { version: "0.2.0", dependencies: { "@patchbay/c": "0.2.0" } },
      "packages/b/node_modules/ws": { version: "0.1.0" },
    },
  });
});
