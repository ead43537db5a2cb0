// SPDX-License-Identifier: Apache-2.0

/** Where Kubernetes mounts token and certificate. Source: Kubernetes "Accessing the API from within a Pod" */
export const SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The URL of the API server from the pod's environment; undefined outside a cluster. */
export function findClusterServer(): string | undefined {
  const host = process.env["KUBERNETES_SERVICE_HOST"];
  const port = process.env["KUBERNETES_SERVICE_PORT"];
  if (host === undefined || port === undefined) return undefined;
  return host.includes(":") ? `https://[${host}]:${port}` : `https://${host}:${port}`;
}
