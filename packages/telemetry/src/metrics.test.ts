// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { createMetrics } from "./metrics.ts";

describe("metrics", () => {
  test("count passes by result and measure them", async () => {
    const metrics = createMetrics();
    metrics.observeReconcile({ name: "vmi", result: "done", seconds: 0.002 });
    metrics.observeReconcile({ name: "vmi", result: "failed", seconds: 2 });
    const text = await metrics.print();
    expect(text).toContain('patchbay_reconcile_total{reconciler="vmi",result="done"} 1');
    expect(text).toContain('patchbay_reconcile_total{reconciler="vmi",result="failed"} 1');
    expect(text).toContain('patchbay_reconcile_seconds_bucket{le="0.005",reconciler="vmi"} 1');
  });

  test("measure plugs and count failures by reason", async () => {
    const metrics = createMetrics();
    metrics.observePlug("Plug", 0.3);
    metrics.countIfaceFailure("CniFailed");
    const text = await metrics.print();
    expect(text).toContain('patchbay_plug_seconds_bucket{le="0.5",type="Plug"} 1');
    expect(text).toContain('patchbay_iface_failures_total{reason="CniFailed"} 1');
  });

  test("forget phases that no iface has any more", async () => {
    const metrics = createMetrics();
    metrics.setIfacePhases({ Pending: 2 });
    metrics.setIfacePhases({ Ready: 2 });
    const text = await metrics.print();
    expect(text).toContain('patchbay_iface_phase{phase="Ready"} 2');
    expect(text).not.toContain("Pending");
  });

  test("of two programs in one process are apart", async () => {
    createMetrics().setOldestPending(5);
    expect(await createMetrics().print()).toContain("patchbay_oldest_pending_iface_seconds 0");
  });
});
