/* SPDX-License-Identifier: MIT
 *
 * A web page in a browser beside a server without a password: what the page may not ask, and what
 * programs and proxies still may. */
#include "../support/http1_ask.h"

#define TAKE      "{\"key\":\"a\",\"limit\":\"10/s\"}"
#define CHECK     "/v1/check?key=a&limit=10/s"
#define ELSEWHERE "Origin: https://evil.example\r\n"
#define CROSS     "Sec-Fetch-Site: cross-site\r\n"

/* Over TCP, as all pages come. */
static int setup_tcp(void **state)
{
    int result = setup(state);
    world.peer.has_address = true;
    return result;
}

#define TCP_TEST(name) cmocka_unit_test_setup_teardown(name, setup_tcp, teardown)

static const char *ask(const char *method, const char *path, const char *fields)
{
    char text[16384];
    const char *body = strcmp(method, "POST") == 0 ? TAKE : "";
    int length = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s",
                          method, path, fields, strlen(body), body);
    assert_in_range(length, 1, sizeof text - 1);
    return request(text);
}

/* How many units the key "a" has left; as a program asks. */
static void assert_remaining(const char *remaining)
{
    assert_has(post("/v1/can_take", TAKE), remaining);
}

/* ---- Host ---- */

static void test_host_is_an_address_or_localhost(void **state)
{
    (void)state;
    static const char *const own[] = {
        "Host: 127.0.0.1:8390\r\n",  "Host: 10.1.2.3\r\n",      "Host: [::1]:8390\r\n",
        "Host: [::1]\r\n",           "Host: localhost\r\n",     "Host: LocalHost:8390\r\n",
        "Host: localhost:\r\n",      "Host: [fe80::1]:1\r\n",   "Host:\r\n",
        "Host: localhost.:8390\r\n", "Host: app.localhost\r\n", "Host: a.B.LocalHost.:1\r\n",
    };
    static const char *const foreign[] = {
        "Host: evil.example\r\n",
        "Host: evil.example:8390\r\n",
        "Host: weir\r\n",
        "Host: localhost.evil.example\r\n",
        "Host: 127.0.0.1.evil.net\r\n",
        "Host: localhos\r\n",
        "Host: xlocalhost\r\n",
        "Host: evil-localhost\r\n",
        "Host: .localhost\r\n",
        "Host: localhost..\r\n",
        "Host: .\r\n",
        "Host: app.localhost.evil.example\r\n",
        "Host: app.localhost.example.\r\n",
        "Host: 127.1\r\n",
        "Host: [evil.example]\r\n",
        "Host: :8390\r\n",
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        assert_status(ask("GET", "/metrics", own[i]), 200);
    }
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_status(ask("GET", "/metrics", foreign[i]), 421);
    }
    assert_status(request("GET /metrics HTTP/1.0\r\n\r\n"), 200);
}

/* A rebound name is the page's own site: Origin says the same, and a script may add any field. */
static void test_a_rebound_name_gets_nothing(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "/metrics", "/healthz", "/nosuch", CHECK};
    static const char fields[] =
        "Host: evil.example:8390\r\nSec-Fetch-Site: same-origin\r\n"
        "Origin: http://evil.example:8390\r\nX-Forwarded-For: 10.0.0.1\r\n";
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_problem(ask("GET", paths[i], fields), 421,
                       "Host 'evil.example:8390' is not this server's: if it should be, start the "
                       "server with --http-host evil.example\"");
    }
    assert_status(ask("POST", "/v1/take", fields), 421);
    assert_status(ask("OPTIONS", "/v1/take", fields), 421);
    assert_has(ask("GET", "/", fields), "HTTP/1.1 421 Misdirected Request\r\n");
    assert_int_equal(world.counters.bad_requests[PROTOCOL_HTTP], 8);
    assert_remaining("\"remaining\":9");
}

static void test_the_authority_of_an_absolute_target_counts(void **state)
{
    (void)state;
    assert_status(ask("GET", "http://evil.example/metrics", HOST), 421);
    assert_status(ask("GET", "http://127.0.0.1:8390/metrics", "Host: evil.example\r\n"), 200);
    assert_status(ask("GET", "http://evil.example", HOST), 421);
}

static void test_chosen_names_are_hosts(void **state)
{
    (void)state;
    world.config.http_hosts[0] = "Weir.example.org";
    world.config.http_hosts[1] = "other";
    world.config.http_host_count = 2;
    assert_status(ask("GET", "/metrics", "Host: weir.example.org\r\n"), 200);
    assert_status(ask("GET", "/metrics", "Host: WEIR.example.org:80\r\n"), 200);
    assert_status(ask("GET", "/metrics", "Host: other:8390\r\n"), 200);
    assert_status(ask("GET", "/metrics", "Host: weir.example.or\r\n"), 421);
    assert_status(ask("GET", "/metrics", "Host: a.weir.example.org\r\n"), 421);
}

static void test_a_long_host_is_cut_in_the_answer(void **state)
{
    (void)state;
    char fields[8192];
    (void)snprintf(fields, sizeof fields, "Host: %08000d\r\n", 1);
    assert_problem(ask("GET", "/", fields), 421, "is not this server's");
}

/* ---- Pages of other sites ---- */

static void test_a_page_of_another_site_may_not_post(void **state)
{
    (void)state;
    static const char *const pages[] = {
        ELSEWHERE,
        ELSEWHERE CROSS "Content-Type: text/plain\r\n",
        CROSS,
        "Sec-Fetch-Site: Cross-Site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: same-origin\r\n",
        "Origin: null\r\n",
        "Origin:\r\n",
        "Origin: http://localhost:3000\r\n", // another server of this machine
        "Origin: http://127.0.0.1\r\n",      // not by this name
        "Origin: http://localhost.evil.net\r\n",
        "Origin: localhost\r\n",
        "Origin: ftp://localhost\r\n",
        "Origin: http://localhost\r\nOrigin: http://localhost\r\n",
        ELSEWHERE "X-Forwarded-For: 10.0.0.1\r\n", // through a proxy before the whole server
    };
    static const char *const paths[] = {"/v1/take", "/v1/reset", "/v1/block", "/v1/nosuch"};
    char fields[512];
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        for (size_t p = 0; p < sizeof paths / sizeof paths[0]; p++) {
            (void)snprintf(fields, sizeof fields, HOST "%s", pages[i]);
            assert_problem(ask("POST", paths[p], fields), 403, "a web page of another site asks (");
        }
    }
    assert_problem(ask("POST", "/v1/take", HOST ELSEWHERE), 403,
                   "(Origin: https://evil.example): without a password only this server's own may,"
                   " under its Host or a name of --http-host");
    assert_remaining("\"remaining\":9");
}

static void test_programs_and_own_pages_may_post(void **state)
{
    (void)state;
    static const char *const own[] = {
        HOST,
        HOST "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n",
        HOST "Origin: https://LOCALHOST\r\n",
        HOST "Sec-Fetch-Site: none\r\n",
        "Host: [::1]:8390\r\nOrigin: http://[::1]:8390\r\n",
        "Host: 127.0.0.1:1\r\nOrigin: http://weir.example.org\r\n", // a proxy has changed Host
    };
    world.config.http_hosts[world.config.http_host_count++] = "weir.example.org";
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        assert_status(ask("POST", "/v1/take", own[i]), 200);
    }
    assert_status(ask("POST", "/v1/take", HOST "Origin: http://weir.example.org:81\r\n"), 403);
}

/* What changes nothing may be looked at: a link to /metrics works. */
static void test_reading_is_open_and_shared_with_no_other_site(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "/metrics", "/healthz"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const char *reply = ask("GET", paths[i], HOST ELSEWHERE CROSS);
        assert_status(reply, 200);
        assert_has(reply, "\r\nX-Content-Type-Options: nosniff\r\n");
        assert_lacks(reply, "Access-Control");
    }
    const char *preflight =
        ask("OPTIONS", "/v1/take", HOST ELSEWHERE CROSS "Access-Control-Request-Method: POST\r\n");
    assert_status(preflight, 204);
    assert_lacks(preflight, "Access-Control");
}

/* ---- /v1/check ---- */

static void test_a_page_of_another_site_may_not_check(void **state)
{
    (void)state;
    static const char image[] = HOST CROSS "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n";
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "PUT", "POST"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        assert_status(ask(methods[i], CHECK, image), 403);
        assert_status(ask(methods[i], CHECK, HOST ELSEWHERE), 403);
    }
    /* The preflight of a script that would like to add a proxy's field. */
    assert_problem(ask("OPTIONS", CHECK,
                       HOST ELSEWHERE CROSS "Access-Control-Request-Method: GET\r\n"
                                            "Access-Control-Request-Headers: x-forwarded-for\r\n"),
                   403, "a proxy that hands such a field on has to set X-Forwarded-For as well");
    assert_remaining("\"remaining\":9");
}

/* What the proxy's client is asked for by a page of another site is weir's to count. */
static void test_a_proxy_may_hand_on_what_browsers_say(void **state)
{
    (void)state;
    static const char *const fields[] = {
        "X-Forwarded-For: 10.0.0.1\r\n",
        "x-forwarded-uri: /a\r\n",
        "Forwarded: for=10.0.0.1\r\n",
        "X-Real-IP: 10.0.0.1\r\n",
        "Via: 1.1 proxy\r\n",
        "X-Original-URI: /a\r\n",
        "X-Weir-Key: b\r\n",
    };
    static const char *const others[] = {"X-Forwarded: a\r\n", "X-Real-IPs: 1\r\n", "Vi: 1\r\n",
                                         "X-Weir: a\r\n", "User-Agent: x-forwarded-for\r\n"};
    char all[512];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        (void)snprintf(all, sizeof all, HOST ELSEWHERE CROSS "%s", fields[i]);
        assert_status(ask("GET", CHECK, all), 200);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        (void)snprintf(all, sizeof all, HOST ELSEWHERE CROSS "%s", others[i]);
        assert_status(ask("GET", CHECK, all), 403);
    }
    assert_status(request("GET " CHECK " HTTP/1.0\r\n" HOST ELSEWHERE CROSS "\r\n"), 200);
    assert_status(ask("GET", CHECK, HOST "Sec-Fetch-Site: none\r\n"), 200);
}

/* ---- Where nothing is looked at ---- */

static void test_a_password_is_enough(void **state)
{
    (void)state;
    world.config.password = "secret";
    world.config.password_len = 6;
    assert_status(ask("POST", "/v1/take",
                      "Host: evil.example\r\n" ELSEWHERE CROSS "Authorization: Bearer secret\r\n"),
                  200);
    assert_status(ask("POST", "/v1/take", "Host: evil.example\r\n" ELSEWHERE), 401);
}

static void test_unix_sockets_are_no_browsers(void **state)
{
    (void)state;
    world.peer.has_address = false;
    assert_status(ask("POST", "/v1/take", "Host: app\r\n" ELSEWHERE CROSS), 200);
    assert_status(ask("GET", CHECK, "Host: app\r\n" ELSEWHERE CROSS), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TCP_TEST(test_host_is_an_address_or_localhost),
        TCP_TEST(test_a_rebound_name_gets_nothing),
        TCP_TEST(test_the_authority_of_an_absolute_target_counts),
        TCP_TEST(test_chosen_names_are_hosts),
        TCP_TEST(test_a_long_host_is_cut_in_the_answer),
        TCP_TEST(test_a_page_of_another_site_may_not_post),
        TCP_TEST(test_programs_and_own_pages_may_post),
        TCP_TEST(test_reading_is_open_and_shared_with_no_other_site),
        TCP_TEST(test_a_page_of_another_site_may_not_check),
        TCP_TEST(test_a_proxy_may_hand_on_what_browsers_say),
        TCP_TEST(test_a_password_is_enough),
        TCP_TEST(test_unix_sockets_are_no_browsers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
