// SPDX-License-Identifier: Apache-2.0
// The package cni with real plugins that succeed, fail, hang or are killed.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCni, createJournal, findNetworkStatus, type JournalRow } from "@patchbay/cni";
import { createFiles, createProcessRunner } from "@patchbay/os";
import type { AttachmentRequest, Cni, NetworkConfigList, Sandbox } from "@patchbay/core/interfaces";
import { describeCniContract, describeNewCniContract } from "@patchbay/cni/testing";
import { run } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CniNode } from "./node.ts";

const MAC = "02:00:00:00:55:01";

function request(
  sandbox: Sandbox,
  plugins: NetworkConfigList["plugins"],
  more: Partial<AttachmentRequest> = {},
): AttachmentRequest {
  return {
    containerId: sandbox.id,
    netnsPath: sandbox.netnsPath,
    interfaceName: "net1",
    config: { cniVersion: "1.0.0", name: "blue", plugins },
    args: [["IgnoreUnknown", "1"]],
    capabilityArgs: {},
    ...more,
  };
}

function makeCni(node: CniNode, addMs = 20_000): Cni {
  return createCni({
    runner: createProcessRunner(),
    binDirs: [node.binDir, "/usr/lib/cni"],
    family: node.directory,
    addTimeoutMs: addMs,
  });
}

describe.each(["bridge", "macvlan"])("with %s", (type) => {
  describeCniContract("plugins", () => {
    const node = new CniNode();
    const sandbox = node.addSandbox();
    const parent = node.addParent();
    const plugin =
      type === "bridge" ? node.bridgePlugin() : { type, master: parent, mode: "bridge" };
    return Promise.resolve({
      cni: makeCni(node),
      requestFor: (interfaceName) => request(sandbox, [plugin], { interfaceName }),
      listNics: () => Promise.resolve(node.nics(sandbox)),
      close: () => {
        node.close();
        return Promise.resolve();
      },
    });
  });
});

describeNewCniContract("a plugin that speaks it", () => {
  const node = new CniNode();
  const sandbox = node.addSandbox();
  node.addKeeper();
  return Promise.resolve({
    cni: makeCni(node),
    requestFor: (interfaceName) => {
      const plugins = [{ type: "keeper", dir: node.directory }];
      const config = { cniVersion: "1.1.0", name: "blue", plugins };
      return request(sandbox, plugins, { interfaceName, config });
    },
    listHeld: () =>
      Promise.resolve(
        readdirSync(node.directory)
          .flatMap((name) => /\.([a-z0-9]+)\.held$/.exec(name)?.[1] ?? [])
          .toSorted(),
      ),
    breakDown: () => {
      writeFileSync(join(node.directory, "down"), "");
    },
    close: () => {
      node.close();
      return Promise.resolve();
    },
  });
});

describe("the real plugins", () => {
  let node: CniNode;
  let sandbox: Sandbox;
  let cni: Cni;
  beforeEach(() => {
    node = new CniNode();
    sandbox = node.addSandbox();
    cni = makeCni(node);
  });
  afterEach(() => {
    node.close();
  });

  test("bridge with host-local: the result has address and gateway, DEL frees the lease", async () => {
    const wanted = request(sandbox, [node.bridgePlugin()]);
    const result = await cni.add(wanted);
    const [lease] = node.leases("blue");
    expect(findNetworkStatus(result, "ns1/blue", "net1")).toEqual({
      name: "ns1/blue",
      interface: "net1",
      ips: [lease],
      mac: node.links(sandbox)[0]?.address,
      dns: {},
      gateway: ["10.55.0.1"],
    });
    await cni.del(wanted, result);
    expect(node.leases("blue")).toEqual([]);
    expect(node.bridgePorts()).toEqual([]);
  });

  test.each(["0.2.0", "0.3.1", "0.4.0", "1.1.0"])(
    "use version %s, and newer requests are lowered",
    async (cniVersion) => {
      const config = { cniVersion, name: "blue", plugins: [node.bridgePlugin()] };
      const wanted = request(sandbox, [], { config });
      const result = await cni.add(wanted);
      expect(findNetworkStatus(result, "a/b", "net1").ips).toEqual(node.leases("blue"));
      await cni.del(wanted, result);
      expect(node.leases("blue")).toEqual([]);
    },
  );

  test("assign the requested MAC, by CNI_ARGS and by capability", async () => {
    const args = [
      ["IgnoreUnknown", "1"],
      ["MAC", MAC],
    ] as const;
    await cni.add(request(sandbox, [node.layer2Plugin()], { args, capabilityArgs: { mac: MAC } }));
    expect(node.links(sandbox)).toMatchObject([{ ifname: "net1", address: MAC }]);
  });

  test("tuning in a chain configures the NIC that bridge created", async () => {
    const tuning = { type: "tuning", mtu: 1380, capabilities: { mac: true } };
    const wanted = request(sandbox, [node.bridgePlugin(), tuning], {
      capabilityArgs: { mac: MAC },
    });
    const result = await cni.add(wanted);
    expect(node.links(sandbox)).toMatchObject([{ address: MAC, mtu: 1380 }]);
    expect(findNetworkStatus(result, "a/b", "net1").mac).toBe(MAC);
    await cni.del(wanted, result);
    expect(node.nics(sandbox)).toEqual([]);
  });

  test("detect a missing plugin of a chain before any change", async () => {
    const wanted = request(sandbox, [node.bridgePlugin(), { type: "nowhere" }]);
    await expect(cni.add(wanted)).rejects.toMatchObject({
      code: "CNI_PLUGIN_MISSING",
      details: { plugin: "nowhere" },
    });
    expect(node.nics(sandbox)).toEqual([]);
    expect(node.leases("blue")).toEqual([]);
  });

  test("fail without a free address, and DEL removes the leftovers", async () => {
    const range = { from: "10.55.0.10", to: "10.55.0.10" };
    const first = request(sandbox, [node.bridgePlugin(range)]);
    const second = { ...first, interfaceName: "net2" };
    await cni.add(first);
    await expect(cni.add(second)).rejects.toMatchObject({
      code: "CNI_PLUGIN_FAILED",
      details: { plugin: "bridge", command: "ADD" },
    });
    await cni.del(second);
    expect(node.nics(sandbox)).toEqual(["net1"]);
    expect(node.leases("blue")).toEqual(["10.55.0.10"]);
  });

  test("free the lease although the namespace is deleted", async () => {
    const wanted = request(sandbox, [node.bridgePlugin()]);
    const result = await cni.add(wanted);
    node.dropSandbox(sandbox);
    const { containerId, interfaceName, config, args, capabilityArgs } = wanted;
    await cni.del({ containerId, interfaceName, config, args, capabilityArgs }, result);
    expect(node.leases("blue")).toEqual([]);
  });

  test("macvlan cannot DEL without its parent; its IPAM plugin alone releases the lease", async () => {
    const { ipam } = node.bridgePlugin();
    const master = node.addParent();
    const wanted = request(sandbox, [{ type: "macvlan", master, ipam }]);
    const result = await cni.add(wanted);
    run("ip", "link", "del", master);
    await expect(cni.del(wanted, result)).rejects.toMatchObject({ code: "CNI_PLUGIN_FAILED" });
    expect(node.nics(sandbox)).toEqual([]);
    expect(node.leases("blue")).toHaveLength(1);
    await cni.releaseAddresses(wanted);
    await cni.releaseAddresses(wanted);
    expect(node.leases("blue")).toEqual([]);
  });

  test("report an unknown version as a wrong configuration", async () => {
    const only = JSON.stringify({ cniVersion: "1.0.0", supportedVersions: [] });
    const refusal = JSON.stringify({ code: 1, msg: "incompatible CNI versions" });
    node.addPlugin(
      "old",
      `[ "$CNI_COMMAND" = VERSION ] && echo '${only}' && exit 0; echo '${refusal}'; exit 1`,
    );
    await expect(cni.add(request(sandbox, [{ type: "old" }]))).rejects.toMatchObject({
      code: "CNI_CONFIG_INVALID",
      details: { network: "blue", reason: "plugin old: incompatible CNI versions" },
    });
  });

  test("a hung plugin is killed with its children", async () => {
    const pidFile = join(node.directory, "pid");
    const version = `'{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}'`;
    node.addPlugin(
      "hangs",
      `[ "$CNI_COMMAND" = VERSION ] && echo ${version} && exit 0
       [ "$CNI_COMMAND" = DEL ] && exit 0
       setsid sh -c 'echo $$ > ${pidFile}; exec sleep 600' & trap '' TERM; wait; sleep 600`,
    );
    const wanted = request(sandbox, [{ type: "hangs" }]);
    let impatient = makeCni(node, 300);
    // On a busy machine, the plugin may start its child only after the first limits.
    for (let timeoutMs = 300; !hasText(pidFile); timeoutMs *= 2) {
      impatient = makeCni(node, timeoutMs);
      await expect(impatient.add(wanted)).rejects.toMatchObject({
        code: "CNI_TIMED_OUT",
        details: { plugin: "hangs", command: "ADD", timeoutMs },
      });
    }
    const child = readFileSync(pidFile, "utf8").trim();
    expect(isRunning(child)).toBe(false);
    await expect(impatient.del(wanted)).resolves.toBeUndefined();
    expect(isRunning(child)).toBe(false);
  });

  test("the journal alone undoes an interrupted ADD", async () => {
    const files = createFiles();
    const directory = join(node.directory, "journal");
    const row: JournalRow = {
      podUid: "uid-1",
      podNamespace: "ns1",
      podName: "pod",
      network: "ns1/blue",
      request: request(sandbox, [node.bridgePlugin()]),
      netnsInode: sandbox.netnsInode,
      bootId: "boot",
      sequence: 1,
      state: "begun",
    };
    await createJournal(files, directory).write(row);
    await cni.add(row.request); // and the process ends without a result
    const journal = createJournal(files, directory);
    const [found] = await journal.list("uid-1");
    expect(found).toEqual(row);
    await makeCni(node).del(row.request);
    await journal.remove(row);
    expect(node.nics(sandbox)).toEqual([]);
    expect(node.leases("blue")).toEqual([]);
    expect(await journal.listPods()).toEqual([]);
  });
});

function hasText(path: string): boolean {
  return existsSync(path) && readFileSync(path, "utf8") !== "";
}

/** A zombie that its new parent has not reaped counts as ended. */
function isRunning(pid: string): boolean {
  try {
    return !/\) [XZ] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false; // The process has ended.
  }
}
