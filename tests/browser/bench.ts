// SPDX-License-Identifier: Apache-2.0
// One browser and several fake clusters for the tests of a file.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { FakeCluster } from "./fake-cluster.ts";
import { NETWORKS, RACK, vmiOf, vmOf, type VmOf } from "./objects.ts";
import { openBrowser, openFake, type OpenPanel } from "./panel-page.ts";

export function fill(cluster: FakeCluster, vms: readonly VmOf[] = RACK): void {
  for (const network of NETWORKS) cluster.put("network-attachment-definitions", network);
  for (const vm of vms) {
    cluster.put("virtualmachines", vmOf(vm));
    if (vm.state !== "Stopped") cluster.put("virtualmachineinstances", vmiOf(vm));
  }
}

/** A panel of a cluster; closing it closes the cluster too. */
export interface FakePanel extends OpenPanel {
  readonly cluster: FakeCluster;
}

type Look = Parameters<typeof openFake>[2];

export interface Bench {
  readonly browser: () => Browser;
  readonly open: (prepare?: (cluster: FakeCluster) => void, look?: Look) => Promise<FakePanel>;
}

export function createBench(): Bench {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());
  const its = (): Browser => {
    if (browser === undefined) throw new Error("the browser is opened before the first test");
    return browser;
  };
  const open: Bench["open"] = async (prepare = fill, look = {}) => {
    const cluster = await FakeCluster.start();
    prepare(cluster);
    const panel = await openFake(cluster, its(), look);
    await panel.page.waitForSelector(".unit, .nothing");
    const dispose = async (): Promise<void> => {
      await panel[Symbol.asyncDispose]();
      await cluster.stop();
    };
    return { ...panel, cluster, [Symbol.asyncDispose]: dispose };
  };
  return { browser: its, open };
}
