// SPDX-License-Identifier: Apache-2.0

/** Directory in which Kubernetes mounts token and certificate. Source: "Accessing the Kubernetes API from a Pod" */
export const SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Returns the URL of the API server from the pod's environment; undefined outside a cluster. */
export function findClusterServer(): string | undefined {
  const host = process.env["KUBERNETES_SERVICE_HOST"];
  const port = process.env["KUBERNETES_SERVICE_PORT"];
  if (host === undefined || port === undefined) return undefined;
  return host.includes(":") ? `https://[${host}]:${port}` : `https://${host}:${port}`;
}
