// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { createMetrics } from "./metrics.ts";

describe("metrics", () => {
  test("count and time passes by result", async () => {
    const metrics = createMetrics("virt-handler");
    metrics.observeReconcile({ name: "vmi", result: "done", seconds: 0.002, waitedSeconds: 3 });
    metrics.observeReconcile({ name: "vmi", result: "failed", seconds: 2, waitedSeconds: 0 });
    const text = await metrics.print();
    expect(text).toContain('patchbay_reconcile_total{reconciler="vmi",result="done"} 1');
    expect(text).toContain('patchbay_reconcile_total{reconciler="vmi",result="failed"} 1');
    expect(text).toContain(
      'kubevirt_workqueue_work_duration_seconds_bucket{le="0.005",name="virt-handler-vmi"} 1',
    );
    expect(text).toContain(
      'kubevirt_workqueue_queue_duration_seconds_bucket{le="1",name="virt-handler-vmi"} 1',
    );
  });

  test("read queues when they are requested", async () => {
    const metrics = createMetrics("virt-handler");
    let depth = 0;
    metrics.addQueue("vmi", () => {
      depth += 1;
      return { depth, adds: 7, retries: 0, unfinishedSeconds: 0, longestRunningSeconds: 0 };
    });
    await metrics.print();
    const text = await metrics.print();
    expect(text).toContain('kubevirt_workqueue_depth{name="virt-handler-vmi"} 2');
    expect(text).toContain('kubevirt_workqueue_adds_total{name="virt-handler-vmi"} 7');
  });

  test("count sent API requests and served calls", async () => {
    const metrics = createMetrics("virt-handler");
    metrics.countApiRequest({ verb: "patch", resource: "pods/status" });
    metrics.countServed("mutate");
    const text = await metrics.print();
    expect(text).toContain('patchbay_api_requests_total{verb="patch",resource="pods/status"} 1');
    expect(text).toContain('patchbay_served_total{call="mutate"} 1');
  });

  test("include those that a program adds for its own work", async () => {
    const metrics = createMetrics("virt-handler");
    const settings = { name: "own_total", help: "Own.", labelNames: ["reason"] };
    const count = metrics.addCounter(settings);
    const measure = metrics.addHistogram({ ...settings, name: "own_seconds", buckets: [0.2, 0.5] });
    count({ reason: "one" });
    measure({ reason: "one" }, 0.3);
    const text = await metrics.print();
    expect(text).toContain('own_total{reason="one"} 1');
    expect(text).toContain('own_seconds_bucket{le="0.2",reason="one"} 0');
    expect(text).toContain('own_seconds_bucket{le="0.5",reason="one"} 1');
  });

  test("include those of sources, read again each time", async () => {
    const metrics = createMetrics("virt-handler");
    let value = 1;
    metrics.addSource(() => {
      value += 1;
      const labels = { name: "vm", network: 'a "quoted" one\n' };
      const samples = [{ labels, value }];
      const counter = { name: "some_total", help: "Some.", type: "counter", samples } as const;
      const none = { name: "none", help: "None.", type: "gauge", samples: [] } as const;
      return Promise.resolve([counter, none]);
    });
    const line = String.raw`some_total{name="vm",network="a \"quoted\" one\n"}`;
    expect(await metrics.print()).toContain(`# TYPE some_total counter\n${line} 2\n`);
    const text = await metrics.print();
    expect(text).toContain(`\n${line} 3\n`);
    expect(text.match(/^some_total/gm)).toHaveLength(1);
    expect(text).toContain("# TYPE patchbay_reconcile_total counter");
    expect(text).toContain("# TYPE none gauge");
    expect(text).not.toMatch(/^none/m);
  });

  test("of two programs in one process are separate", async () => {
    createMetrics("virt-handler").countServed("mutate");
    expect(await createMetrics("virt-handler").print()).not.toContain("mutate");
  });
});
