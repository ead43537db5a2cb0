// SPDX-License-Identifier: Apache-2.0
// DEL without a network namespace, for plugins that find masquerading rules by the addresses in it.
import type {
  AttachmentRequest,
  CniResult,
  Command,
  ProcessRunner,
} from "@patchbay/core/interfaces";
import { expect, test } from "vitest";
import { createCni } from "./plugins.ts";

const RESULT: CniResult = {
  cniVersion: "1.0.0",
  ips: [{ address: "10.0.0.2/24" }, { address: "fd00::2/64" }, { address: "$(reboot)" }],
};

async function del(
  plugin: Readonly<Record<string, unknown>>,
  where: Pick<AttachmentRequest, "netnsPath"> & { readonly result?: CniResult },
  hostProcess?: number,
): Promise<readonly Command[]> {
  const commands: Command[] = [];
  const runner: ProcessRunner = {
    run: (command) => {
      commands.push(command);
      return Promise.resolve({ exitCode: 0, stdout: "", stderr: "" });
    },
    killProcessFamily: () => Promise.resolve(),
  };
  const config = {
    cniVersion: "1.0.0",
    name: "blue",
    plugins: [{ type: "bridge", ...plugin }],
  };
  const { netnsPath, result } = where;
  const request: AttachmentRequest = {
    containerId: "c1",
    interfaceName: "net1",
    config,
    args: [],
    capabilityArgs: {},
    ...(netnsPath !== undefined && { netnsPath }),
  };
  const host = hostProcess === undefined ? {} : { hostProcess };
  const cni = createCni({ runner, binDirs: ["/b"], family: "f", ...host });
  await cni.del(request, result ?? RESULT);
  return commands;
}

test.each<{ name: string; hostProcess?: number; outside: readonly string[] }>([
  { name: "here", outside: ["/b/bridge"] },
  {
    name: "in the host's namespace",
    hostProcess: 1,
    outside: ["nsenter", "--target", "1", "--mount", "--net", "--", "/b/bridge"],
  },
])(
  "a plugin $name runs in a temporary namespace with the addresses",
  async ({ hostProcess, outside }) => {
    const [command] = await del({ ipMasq: true }, {}, hostProcess);
    expect(command?.argv.slice(0, 5)).toEqual(["unshare", "--net", "--", "sh", "-c"]);
    expect(command?.argv.slice(7)).toEqual(outside);
    expect(command?.env).toMatchObject({
      STAND_IN_ADDRESSES: "10.0.0.2/24 fd00::2/64",
      CNI_NETNS: "",
      CNI_COMMAND: "DEL",
    });
  },
);

test.each([
  { name: "the plugin does not masquerade", plugin: {}, where: {} },
  { name: "the namespace exists", plugin: { ipMasq: true }, where: { netnsPath: "/run/netns/a" } },
  {
    name: "no address is known",
    plugin: { ipMasq: true },
    where: { result: { cniVersion: "1.0.0" } },
  },
])("runs a plugin without a temporary namespace if $name", async ({ plugin, where }) => {
  const commands = await del(plugin, where);
  expect(commands.map(({ argv }) => argv)).toEqual([["/b/bridge"]]);
});
