// SPDX-License-Identifier: Apache-2.0
// Rows observed on Debian's plugins, on which our loop relies, repeated on this machine.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCni } from "@patchbay/cni";
import { createProcessRunner } from "@patchbay/os";
import type { NetworkConfigList, Sandbox } from "@patchbay/core/interfaces";
import { run } from "@patchbay/support";
import { CniNode } from "../node.ts";
import type { Fields, Judge, Row } from "./rows.ts";

type Plugin = NetworkConfigList["plugins"][number];

/** A direct call of a plugin. */
interface Call {
  readonly command: string;
  readonly plugin: Plugin;
  readonly ifname?: string;
  /** Default: the sandbox's. */
  readonly netns?: string;
  readonly args?: string;
  readonly config?: Fields;
}

class Machine {
  readonly node = new CniNode();
  readonly sandbox: Sandbox = this.node.addSandbox();

  call({ command, plugin, ifname = "net1", netns, args = "", config }: Call): Fields {
    const { status, stdout } = spawnSync(`/usr/lib/cni/${plugin.type}`, {
      input: JSON.stringify({ cniVersion: "1.0.0", name: "blue", ...plugin, ...config }),
      encoding: "utf8",
      timeout: 120_000,
      env: {
        PATH: process.env["PATH"],
        CNI_PATH: "/usr/lib/cni",
        CNI_COMMAND: command,
        CNI_CONTAINERID: this.sandbox.id,
        CNI_NETNS: netns ?? this.sandbox.netnsPath,
        CNI_IFNAME: ifname,
        CNI_ARGS: args,
      },
    });
    const answer = stdout.trim() === "" ? {} : (JSON.parse(stdout) as Fields);
    return { rc: status, code: answer["code"], msg: answer["msg"] };
  }

  hasNic(name = "net1"): boolean {
    return this.node.nics(this.sandbox).includes(name);
  }
}

/** Creates a judge for a row that needs its own machine. */
function on(look: (machine: Machine, row: Row) => Fields | Promise<Fields>): Judge {
  return async (row) => {
    const machine = new Machine();
    try {
      const observed = await look(machine, row);
      const wanted = row.expected["msgContains"];
      const isReported = typeof wanted === "string" && String(observed["msg"]).includes(wanted);
      const all: Fields = isReported ? { ...observed, msgContains: wanted } : observed;
      return Object.fromEntries(Object.entries(all).filter(([key]) => key in row.expected));
    } finally {
      machine.node.close();
    }
  };
}

const unknownCommand = on((machine) =>
  machine.call({ command: "GC", plugin: machine.node.layer2Plugin() }),
);

const missingName = on((machine) =>
  machine.call({
    command: "ADD",
    plugin: machine.node.layer2Plugin(),
    config: { name: undefined },
  }),
);

const plainFile = on((machine) => {
  const netns = join(machine.node.directory, "plain");
  writeFileSync(netns, "");
  // Ours passes no namespace when the path is missing: see `removalOf` in net-agent.
  const agent = "pass an empty CNI_NETNS instead";
  return { ...machine.call({ command: "DEL", plugin: machine.node.bridgePlugin(), netns }), agent };
});

const macvlanTwice = on((machine) => {
  const plugin = { type: "macvlan", master: machine.node.addParent() };
  machine.call({ command: "ADD", plugin });
  const second = machine.call({ command: "ADD", plugin });
  return { ...second, existingInterfaceIntact: machine.hasNic() };
});

const poolExhausted = on((machine) => {
  const plugin = machine.node.bridgePlugin({ from: "10.55.0.10", to: "10.55.0.10" });
  machine.call({ command: "ADD", plugin });
  const second = machine.call({ command: "ADD", plugin, ifname: "net2" });
  const leftover = machine.hasNic("net2");
  machine.call({ command: "DEL", plugin, ifname: "net2" });
  return { ...second, leftover, fixedBy: machine.hasNic("net2") ? "nothing" : "DEL" };
});

const ipamMissing = on((machine) => {
  machine.call({ command: "ADD", plugin: machine.node.layer2Plugin() });
  const plugin = { ...machine.node.layer2Plugin(), ipam: { type: "nope-ipam" } };
  return { ...machine.call({ command: "DEL", plugin }), linkRemoved: !machine.hasNic() };
});

const masterGone = on((machine) => {
  const master = machine.node.addParent();
  const plugin = { type: "macvlan", master, ipam: machine.node.bridgePlugin()["ipam"] };
  machine.call({ command: "ADD", plugin });
  run("ip", "link", "del", master);
  return machine.call({ command: "DEL", plugin });
});

const hostDevice = on((machine) => {
  const plugin = { type: "host-device", device: machine.node.addParent() };
  const gone = machine.call({ command: "DEL", plugin, netns: "/run/netns/none-such" });
  const withEmptyNetns = machine.call({ command: "DEL", plugin, netns: "" })["rc"];
  return { ...gone, withEmptyNetns };
});

const netnsVanished = on((machine) => {
  const plugin = machine.node.bridgePlugin();
  const outcomes = ["/run/netns/none-such", ""].map((netns, index) => {
    const ifname = `net${String(index + 1)}`;
    machine.call({ command: "ADD", plugin, ifname });
    const { rc } = machine.call({ command: "DEL", plugin, ifname, netns });
    return { rc, linkInLiveNetnsRemoved: !machine.hasNic(ifname) };
  });
  const addressReleased = machine.node.leases("blue").length === 0;
  const [first, second] = outcomes;
  const isAlike = JSON.stringify(first) === JSON.stringify(second);
  return { ...(isAlike ? first : {}), addressReleased };
});

const otherName = on((machine) => {
  const plugin = machine.node.bridgePlugin();
  machine.call({ command: "ADD", plugin });
  const del = machine.call({ command: "DEL", plugin, config: { name: "differs" } });
  const addressReleased = machine.node.leases("blue").length === 0;
  return { ...del, linkRemoved: !machine.hasNic(), addressReleased };
});

const checkWithoutIpam = on((machine) => {
  const plugin = machine.node.layer2Plugin();
  machine.call({ command: "ADD", plugin });
  const { sandbox } = machine;
  const nic = { name: "net1", sandbox: sandbox.netnsPath };
  const prevResult = { cniVersion: "1.0.0", interfaces: [{ name: machine.node.bridge }, nic] };
  return machine.call({ command: "CHECK", plugin, config: { prevResult } });
});

const oldWithoutIpam = on((machine) => {
  const plugin = machine.node.layer2Plugin();
  const add = machine.call({ command: "ADD", plugin, config: { cniVersion: "0.2.0" } });
  return { ...add, leftover: machine.hasNic() };
});

const unknownArgs = on((machine) =>
  machine.call({ command: "ADD", plugin: machine.node.layer2Plugin(), args: "FOO=bar" }),
);

const otherVersion = on((machine) => {
  const prevResult = { cniVersion: "0.4.0" };
  return machine.call({ command: "ADD", plugin: { type: "tuning" }, config: { prevResult } });
});

const killedGroup = on(async (machine) => {
  const { node, sandbox } = machine;
  const pidFile = join(node.directory, "pid");
  const version = `'{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}'`;
  node.addPlugin(
    "hangs",
    `[ "$CNI_COMMAND" = VERSION ] && echo ${version} && exit 0
     [ "$CNI_COMMAND" = DEL ] && exec /usr/lib/cni/bridge
     /usr/lib/cni/bridge > /dev/null; sleep 600 & echo $! > ${pidFile}; wait`,
  );
  const runner = createProcessRunner();
  const binDirs = [node.binDir, "/usr/lib/cni"];
  const cni = createCni({ runner, binDirs, family: node.directory, addTimeoutMs: 500 });
  const config = { cniVersion: "1.0.0", name: "blue", plugins: [hanging(node)] };
  const request = {
    containerId: sandbox.id,
    netnsPath: sandbox.netnsPath,
    interfaceName: "net1",
    config,
    args: [],
    capabilityArgs: {},
  };
  await cni.add(request).catch(() => undefined); // the row is about its deadline
  const pid = readFileSync(pidFile, "utf8").trim();
  const linkLeft = machine.hasNic();
  await cni.del(request);
  return {
    orphan: existsSync(`/proc/${pid}/exe`) ? pid : null,
    linkLeft,
    fixedBy: machine.hasNic() ? "nothing" : "DEL with the same ids",
  };
});

function hanging(node: CniNode): Plugin {
  return { ...node.bridgePlugin(), type: "hangs" };
}

/** Keyed by the row's name. */
export const PLUGIN_ROWS: Readonly<Record<string, Judge>> = {
  "unknown command": unknownCommand,
  "missing network name": missingName,
  "netns path is a plain file": plainFile,
  "interface exists (macvlan)": macvlanTwice,
  "address pool exhausted leaves a half-made interface": poolExhausted,
  "DEL with IPAM binary missing still errors, though the link is gone": ipamMissing,
  "macvlan DEL fails once its master is gone (1.1.1)": masterGone,
  "host-device DEL with a vanished netns path": hostDevice,
  "DEL with vanished or empty netns frees the address": netnsVanished,
  "DEL with another network name removes the link but keeps the lease": otherName,
  "bridge CHECK without IPAM always fails": checkWithoutIpam,
  "0.2.0 without IPAM fails after making the interface": oldWithoutIpam,
  "unknown CNI_ARGS key without IgnoreUnknown": unknownArgs,
  "prevResult version differs from config": otherVersion,
  "killing the process group leaves no child": killedGroup,
};
