import java.lang.reflect.Field;

/** Starts Debian's JMeter 2.13 with the arguments as they are. Its XStream (since 1.4.18) reads only
 * classes that are allowed by name, and JMeter, which is older, allows none: started by itself it
 * opens no plan at all. Here its own classes are allowed. */
public class DebianJMeter {
    private static final String[] OWN = {"org.apache.jmeter.**", "org.apache.jorphan.**"};

    public static void main(String[] arguments) throws Exception {
        String home = System.getProperty("jmeter.home");
        Class<?> driver = Class.forName("org.apache.jmeter.NewDriver");
        ClassLoader loader = (ClassLoader) hidden(driver, "loader");
        Thread.currentThread().setContextClassLoader(loader);
        // What reads plans needs to know where the properties are.
        Class<?> utilities = loader.loadClass("org.apache.jmeter.util.JMeterUtils");
        utilities.getMethod("setJMeterHome", String.class).invoke(null, home);
        utilities.getMethod("loadJMeterProperties", String.class)
            .invoke(null, home + "/bin/jmeter.properties");
        Class<?> service = Class.forName("org.apache.jmeter.save.SaveService", true, loader);
        for (String name : new String[] {"JMXSAVER", "JTLSAVER"}) {
            Object saver = hidden(service, name);
            saver.getClass().getMethod("allowTypesByWildcard", String[].class)
                .invoke(saver, (Object) OWN);
        }
        driver.getMethod("main", String[].class).invoke(null, (Object) arguments);
    }

    private static Object hidden(Class<?> owner, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(null);
    }
}
