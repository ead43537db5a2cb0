// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import { expect, test } from "vitest";
import { buildPaths } from "./data-dir/paths.ts";
import { mergeMetrics, readMachineMetrics } from "./metrics.ts";

const API = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="get",path="/a}b"} 3
# HELP seconds Time.
# TYPE seconds histogram
seconds_bucket{le="+Inf"} 2
seconds_count 2
`;
const HANDLER = `# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="get",path="/a}b"} 4
requests_total{} 1
`;

test("outputs each family once, with the samples of all services separately", () => {
  const services = [
    { service: "virt-api", text: API },
    { service: "virt-handler", text: HANDLER },
    { service: "net-agent", text: undefined },
  ];
  expect(mergeMetrics(services).split("\n")).toEqual([
    "# HELP patchbay_service_up 1 if the service answered this request, else 0.",
    "# TYPE patchbay_service_up gauge",
    'patchbay_service_up{service="virt-api"} 1',
    'patchbay_service_up{service="virt-handler"} 1',
    'patchbay_service_up{service="net-agent"} 0',
    "# HELP requests_total Requests.",
    "# TYPE requests_total counter",
    'requests_total{service="virt-api",verb="get",path="/a}b"} 3',
    'requests_total{service="virt-handler",verb="get",path="/a}b"} 4',
    'requests_total{service="virt-handler"} 1',
    "# HELP seconds Time.",
    "# TYPE seconds histogram",
    'seconds_bucket{service="virt-api",le="+Inf"} 2',
    'seconds_count{service="virt-api"} 2',
    "",
  ]);
});

test("the machine reports its disk, the logs of each service and the last backup", async () => {
  const directory = mkdtempSync(join(tmpdir(), "metrics-"));
  const paths = buildPaths(directory);
  try {
    mkdirSync(paths.logs);
    writeFileSync(join(paths.logs, "virt-api.log"), "four");
    writeFileSync(join(paths.logs, "virt-api.log.1"), "six...");
    const before = await readMachineMetrics(createFiles(), paths);
    expect(before).toContain('patchbay_machine_log_bytes{service="virt-api"} 10\n');
    expect(before).toMatch(/^patchbay_machine_disk_free_bytes \d{6,}$/m);
    expect(before).toContain("patchbay_machine_read_only_volumes 0\n");
    expect(before).not.toContain("backup");
    writeFileSync(paths.backupRecord, '{"atMs":1700000000400}');
    const after = await readMachineMetrics(createFiles(), paths);
    expect(after).toContain("patchbay_machine_backup_timestamp_seconds 1700000000\n");
  } finally {
    rmSync(directory, { recursive: true });
  }
});
