// SPDX-License-Identifier: Apache-2.0
import type { CommandResult } from "@patchbay/core/interfaces";
import { createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import {
  buildCgroupRoot,
  buildContainerdLayout,
  buildCriEndpoint,
  prepareOwnContainerd,
  removeOwnContainerd,
} from "./own-containerd.ts";

const PATHS = buildPaths("/d");
const SPEC = JSON.stringify({ process: {}, linux: {} });

function host(mount: Partial<CommandResult> = {}) {
  const files = createFakeFiles();
  const ok = (): Partial<CommandResult> => ({});
  const runner = createFakeProcessRunner({
    mount: () => mount,
    umount: ok,
    ctr: () => ({ stdout: SPEC }),
    rmdir: ok,
    ln: ok,
  });
  return { files, runner, log: createFakeLogger(), paths: PATHS, bootId: "boot" };
}

test("machines of one host have separate paths and cgroups", () => {
  expect(buildCriEndpoint(PATHS)).toBe("unix:///d/run/containerd/containerd.sock");
  expect(buildContainerdLayout(PATHS)).toMatchObject({
    directory: "/d/containerd",
    runDirectory: "/d/run/containerd",
    cniConfDirectory: PATHS.cniConf,
  });
  expect(buildCgroupRoot(PATHS)).toMatch(/^\/patchbay-[0-9a-f]{8}$/);
  expect(buildCgroupRoot(buildPaths("/e"))).not.toBe(buildCgroupRoot(PATHS));
});

test.each([
  { name: "can be mounted", mount: {}, want: "as overlays" },
  {
    name: "cannot be mounted",
    mount: { exitCode: 32 },
    want: "as copies: overlays cannot be mounted here",
  },
])("where overlays $name root file systems are stored $want", async ({ mount, want }) => {
  const deps = host(mount);
  expect(await prepareOwnContainerd(deps)).toBe(want);
  const config = await deps.files.readText(buildContainerdLayout(PATHS).config);
  expect(config).toContain("pause");
  const { ownNetworkConf } = buildContainerdLayout(PATHS);
  const text = await deps.files.readText(`${ownNetworkConf}/10-patchbay.conflist`);
  expect(JSON.parse(text ?? "")).toMatchObject({
    plugins: [{ type: "patchbay-cni", socket: "/d/run/cni/net-agent.sock" }],
  });
});

test("removes state and sockets of a containerd that has ended, without a warning", async () => {
  const deps = host();
  const { state, socket, root } = buildContainerdLayout(PATHS);
  for (const path of [`${state}/x`, socket, `${root}/x`]) await deps.files.writeAtomic(path, "");
  await removeOwnContainerd(deps);
  expect([deps.files.paths, deps.log.lines]).toEqual([[`${root}/x`], []]);
});
